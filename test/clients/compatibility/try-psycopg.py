"""What people do with psycopg 3: `try-psycopg.py <connection string> <authority's file> <table>`."""
import datetime
import decimal
import sys
import threading
import time
import uuid

import psycopg
from psycopg.types.json import Jsonb

uri, authority, table = sys.argv[1:]


def connect(**more):
    return psycopg.connect(uri, **more)


def values_come_back(connection):
    sent = [
        42, 9007199254740993, decimal.Decimal("1.10"), datetime.date(2026, 11, 22),
        datetime.datetime(2026, 11, 22, 1, 2, 3, 4, tzinfo=datetime.timezone.utc),
        bytes([0, 255, 92]), ["x", "y,z", None], True, None, uuid.UUID(int=7),
    ]
    columns = ", ".join(
        f"%s::{kind}" for kind in
        ("int4", "int8", "numeric", "date", "timestamptz", "bytea", "text[]", "bool", "text", "uuid")
    )
    for binary in (False, True):
        with connection.cursor(binary=binary) as cursor:
            # More often than its threshold of five, after which it prepares.
            for _ in range(8):
                assert list(cursor.execute(f"select {columns}", sent).fetchone()) == sent
                doc = {"likes": ["é", None]}
                assert cursor.execute("select %s::jsonb", [Jsonb(doc)]).fetchone() == (doc,)


def statements_are_prepared_and_forgotten(connection):
    # Two at a time: it deallocates the oldest, in SQL.
    connection.prepared_max = 2
    for n in range(6):
        for _ in range(3):
            assert connection.execute(f"select %s::int + {n}", [n], prepare=True).fetchone() == (2 * n,)


def transactions(connection):
    connection.execute(f"create table {table} (id int primary key, text text)")
    with connection.transaction():
        connection.execute(f"insert into {table} values (1, 'one')")
        try:
            with connection.transaction():
                connection.execute(f"insert into {table} values (1, 'again')")
        except psycopg.errors.UniqueViolation as error:
            assert error.sqlstate == "23505" and error.diag.table_name == table
    try:
        with connection.transaction():
            connection.execute(f"delete from {table}")
            connection.execute("select 1 / 0")
    except psycopg.errors.DivisionByZero:
        pass
    assert connection.execute(f"select count(*) from {table}").fetchone() == (1,)


def pipeline(connection):
    with connection.pipeline() as pipeline:
        cursors = [connection.execute("select %s::int", [n]) for n in range(50)]
        pipeline.sync()
        assert [cursor.fetchone()[0] for cursor in cursors] == list(range(50))
    try:
        with connection.pipeline():
            connection.execute("select no_such_function()")
            connection.execute("select 1")
    except psycopg.errors.UndefinedFunction:
        pass
    assert connection.execute("select 1").fetchone() == (1,)


def copy(connection):
    with connection.cursor() as cursor, connection.transaction():
        with cursor.copy(f"copy {table} from stdin") as into:
            for n in range(10, 1000):
                into.write_row((n, f"text {n}"))
        with cursor.copy(f"copy (select id from {table} where id >= 10 order by id) to stdout (format binary)") as out:
            out.set_types(["int4"])
            assert [row[0] for row in out.rows()] == list(range(10, 1000))


def cursors(connection):
    with connection.transaction(), connection.cursor("on_server") as cursor:
        cursor.itersize = 100
        assert sum(n for (n,) in cursor.execute("select generate_series(1, 1000)")) == 500500


def cancel(connection):
    failed = []

    def sleep():
        try:
            connection.execute("select pg_sleep(600), 'psycopg sleeps'")
        except psycopg.errors.QueryCanceled as error:
            failed.append(error.sqlstate)

    thread = threading.Thread(target=sleep)
    thread.start()
    with connect(autocommit=True) as other:
        asleep = "select count(*) from pg_stat_activity where state = 'active' and query like '%''psycopg sl%' and pid <> pg_backend_pid()"
        while other.execute(asleep).fetchone() == (0,):
            time.sleep(0.02)
    connection.cancel()
    thread.join(60)
    assert failed == ["57014"], failed


with connect(autocommit=True) as connection:
    for step in (values_come_back, statements_are_prepared_and_forgotten, transactions, pipeline, copy, cursors, cancel):
        step(connection)
with connect(sslmode="verify-full", sslrootcert=authority) as connection:
    assert connection.pgconn.ssl_in_use
    assert connection.execute("select %s::text", ["hidden"]).fetchone() == ("hidden",)
print("all well")
