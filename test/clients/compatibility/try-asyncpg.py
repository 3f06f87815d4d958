"""What people do with asyncpg: `try-asyncpg.py <connection string> <authority's file> <table>`."""
import asyncio
import datetime
import decimal
import io
import json
import ssl
import sys
import uuid

import asyncpg

uri, authority, table = sys.argv[1:]


async def values_come_back(connection):
    await connection.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    sent = [
        42, 9007199254740993, decimal.Decimal("1.10"), datetime.date(2026, 11, 22),
        datetime.datetime(2026, 11, 22, 1, 2, 3, 4, tzinfo=datetime.timezone.utc), {"likes": ["é", None]},
        bytes([0, 255, 92]), ["x", "y,z", None], True, None, uuid.UUID(int=7),
    ]
    kinds = ("int4", "int8", "numeric", "date", "timestamptz", "jsonb", "bytea", "text[]", "bool", "text", "uuid")
    columns = ", ".join(f"${n}::{kind}" for n, kind in enumerate(kinds, 1))
    for _ in range(3):
        assert list(await connection.fetchrow(f"select {columns}", *sent)) == sent


async def prepare_on_many_connections(pool):
    async def ask(n):
        return await pool.fetchval(f"select $1::int + {n % 3}", n)

    assert await asyncio.gather(*(ask(n) for n in range(120))) == [n + n % 3 for n in range(120)]


async def transactions(connection):
    await connection.execute(f"create table {table} (id int primary key, text text)")
    async with connection.transaction(isolation="serializable"):
        await connection.execute(f"insert into {table} values ($1, $2)", 1, "one")
    try:
        async with connection.transaction():
            await connection.execute(f"delete from {table}")
            await connection.executemany(f"insert into {table} values ($1, $2)", [(1, "a"), (1, "b")])
    except asyncpg.UniqueViolationError as error:
        assert error.sqlstate == "23505" and error.table_name == table
    else:
        raise AssertionError("a duplicate key was taken")
    assert await connection.fetchval(f"select count(*) from {table}") == 1


async def copy(connection):
    await connection.copy_records_to_table(table, records=[(n, f"text {n}") for n in range(10, 1000)])
    out = io.BytesIO()
    await connection.copy_from_query(f"select id from {table} where id >= $1 order by id", 10, output=out)
    assert out.getvalue() == b"".join(b"%d\n" % n for n in range(10, 1000))


async def cursors(connection):
    async with connection.transaction():
        total = 0
        async for row in connection.cursor("select generate_series(1, $1::int) n", 1000, prefetch=100):
            total += row["n"]
        assert total == 500500


async def cancel(connection):
    try:
        await connection.execute("select pg_sleep(600)", timeout=0.2)
    except asyncio.TimeoutError:
        pass
    assert await connection.fetchval("select 1") == 1


async def main():
    async with asyncpg.create_pool(uri, min_size=0, max_size=10) as pool:
        await prepare_on_many_connections(pool)
        async with pool.acquire() as connection:
            for step in (values_come_back, transactions, copy, cursors, cancel):
                await step(connection)
    encrypted = await asyncpg.connect(uri, ssl=ssl.create_default_context(cafile=authority))
    assert await encrypted.fetchval("select $1::text", "hidden") == "hidden"
    await encrypted.close()
    print("all well")


asyncio.run(main())
