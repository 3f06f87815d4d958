import java.io.StringReader;
import java.io.StringWriter;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Arrays;
import java.util.Properties;
import org.postgresql.PGConnection;

/** What people do with the JDBC driver: {@code TryJdbc <address> <user> <password> <authority's file> <table>}. */
public class TryJdbc {
  interface Step {
    void run() throws Exception;
  }

  static void check(boolean holds, String what) {
    if (!holds) throw new AssertionError(what);
  }

  static void fails(String state, Step step) throws Exception {
    try {
      step.run();
    } catch (SQLException error) {
      check(state.equals(error.getSQLState()), error.getSQLState() + " instead of " + state + ": " + error.getMessage());
      return;
    }
    throw new AssertionError("no " + state);
  }

  static void valuesComeBack(Connection connection) throws Exception {
    byte[] bytes = {0, -1, 92};
    // More often than its threshold of five, after which it prepares by name and reads in binary.
    try (PreparedStatement ask = connection.prepareStatement("select ?::int8, ?::text, ?::date, ?::bytea, ?::text[], ?::jsonb")) {
      for (int n = 0; n < 8; n++) {
        ask.setLong(1, 9007199254740993L + n);
        ask.setString(2, "é");
        ask.setDate(3, Date.valueOf("2026-11-22"));
        ask.setBytes(4, bytes);
        ask.setArray(5, connection.createArrayOf("text", new String[] {"x", "y,z"}));
        ask.setString(6, "{\"a\": [1, null]}");
        try (ResultSet row = ask.executeQuery()) {
          check(row.next(), "a row");
          check(row.getLong(1) == 9007199254740993L + n, "int8");
          check(row.getString(2).equals("é"), "text");
          check(row.getDate(3).toString().equals("2026-11-22"), "date");
          check(Arrays.equals(row.getBytes(4), bytes), "bytea");
          check(Arrays.equals((String[]) row.getArray(5).getArray(), new String[] {"x", "y,z"}), "array");
          check(row.getString(6).equals("{\"a\": [1, null]}"), "jsonb");
        }
      }
    }
  }

  static void transactions(Connection connection, String table) throws Exception {
    try (Statement statement = connection.createStatement()) {
      statement.execute("create table " + table + " (id int primary key, text text)");
      connection.setAutoCommit(false);
      try (PreparedStatement insert = connection.prepareStatement("insert into " + table + " values (?, ?)")) {
        for (int n = 0; n < 500; n++) {
          insert.setInt(1, n);
          insert.setString(2, "text " + n);
          insert.addBatch();
        }
        check(insert.executeBatch().length == 500, "a batch");
      }
      connection.commit();
      statement.execute("delete from " + table);
      fails("23505", () -> statement.execute("insert into " + table + " values (1, ''), (1, '')"));
      fails("25P02", () -> statement.execute("select 1"));
      connection.rollback();
      // Inside a transaction a fetch size makes a cursor.
      statement.setFetchSize(50);
      int count = 0;
      try (ResultSet rows = statement.executeQuery("select id from " + table + " order by id")) {
        while (rows.next()) check(rows.getInt(1) == count++, "rows in order");
      }
      check(count == 500, count + " rows");
      connection.commit();
      connection.setAutoCommit(true);
    }
  }

  static void copy(Connection connection, String table) throws Exception {
    var copies = connection.unwrap(PGConnection.class).getCopyAPI();
    check(copies.copyIn("copy " + table + " from stdin", new StringReader("1000\tx\n1001\ty\n")) == 2, "copied in");
    StringWriter out = new StringWriter();
    copies.copyOut("copy (select * from " + table + " where id >= 1000 order by id) to stdout", out);
    check(out.toString().equals("1000\tx\n1001\ty\n"), out.toString());
  }

  static void cancel(Connection connection) throws Exception {
    try (Statement statement = connection.createStatement()) {
      statement.setQueryTimeout(1);
      fails("57014", () -> statement.execute("select pg_sleep(600)"));
      statement.setQueryTimeout(0);
      statement.execute("select 1");
    }
  }

  public static void main(String[] words) throws Exception {
    Properties properties = new Properties();
    properties.setProperty("user", words[1]);
    properties.setProperty("password", words[2]);
    properties.setProperty("sslmode", "disable");
    try (Connection connection = DriverManager.getConnection(words[0], properties)) {
      valuesComeBack(connection);
      transactions(connection, words[4]);
      copy(connection, words[4]);
      cancel(connection);
    }
    properties.setProperty("sslmode", "verify-full");
    properties.setProperty("sslrootcert", words[3]);
    try (Connection connection = DriverManager.getConnection(words[0], properties)) {
      valuesComeBack(connection);
    }
    System.out.println("all well");
  }
}
