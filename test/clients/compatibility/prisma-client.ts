import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { PrismaNeon, PrismaNeonHttp } from '@prisma/adapter-neon';
import { PrismaPg } from '@prisma/adapter-pg';
import * as runtime from '@prisma/client/runtime/client';
import pg from 'pg';
import { BOTH_HOSTS, type MatrixClient, type Place, tableName } from './matrix-client.ts';
import { packageVersion } from './package-version.ts';
import { setUpServerless } from './serverless-settings.ts';

/**
 * What `prisma generate` writes for the schema inside, as data. The command itself wants a binary from a server of its
 * own, which a test cannot have; what it writes needs none.
 */
const generated = createRequire(import.meta.url)('./prisma-generated.json');

/** Without types, and named so that the compiler asks for none. */
const COMPILER: string = '@prisma/client/runtime/query_compiler_fast_bg.postgresql';

const PrismaClient = runtime.getPrismaClient({
  ...generated,
  previewFeatures: [],
  activeProvider: 'postgresql',
  compilerWasm: {
    getRuntime: () => import(`${COMPILER}.mjs`),
    getQueryCompilerWasmModule: async () => {
      const { wasm } = await import(`${COMPILER}.wasm-base64.mjs`);
      return new WebAssembly.Module(Buffer.from(wasm, 'base64'));
    },
    importName: './query_compiler_fast_bg.js',
  },
});

// biome-ignore lint/suspicious/noExplicitAny: its types are what `prisma generate` writes
type Prisma = any;

async function withPrisma(adapter: runtime.SqlDriverAdapterFactory, use: (prisma: Prisma) => Promise<void>) {
  const prisma: Prisma = new PrismaClient({ adapter });
  try {
    await use(prisma);
  } finally {
    await prisma.$disconnect();
  }
}

/** What a migration would do, statement by statement. */
async function makeTables({ uri }: Place, schema: string): Promise<void> {
  const client = new pg.Client({ connectionString: uri });
  await client.connect();
  try {
    await client.query(`create schema ${schema};
      create table ${schema}.person (id serial primary key, email text not null unique, born date not null,
        seen timestamptz(3) not null, about jsonb not null, photo bytea not null, tags text[], balance decimal(20, 2) not null,
        views bigint not null);
      create table ${schema}.note (id serial primary key, text text not null,
        "personId" int not null references ${schema}.person (id) on update cascade on delete restrict)`);
  } finally {
    await client.end();
  }
}

const PERSON = {
  email: 'a@b.c',
  born: new Date('2000-02-29T00:00:00Z'),
  seen: new Date('2026-11-22T01:02:03.004Z'),
  about: { likes: ['é', null] },
  photo: new Uint8Array([0, 255, 92]),
  tags: ['x', 'y,z'],
  balance: '12345678901234567.89',
  views: 9007199254740993n,
};

async function readAndWrite(prisma: Prisma): Promise<void> {
  const { id, balance, photo, ...rest } = await prisma.person.create({ data: PERSON });
  const { balance: _balance, photo: _photo, ...expected } = PERSON;
  assert.deepEqual(
    { ...rest, balance: String(balance), photo: [...photo] },
    {
      ...expected,
      balance: PERSON.balance,
      photo: [...PERSON.photo],
    },
  );
  await prisma.note.createMany({
    data: [
      { text: 'one', personId: id },
      { text: 'two', personId: id },
    ],
  });
  const found = await prisma.person.findUnique({
    where: { email: 'a@b.c' },
    include: { notes: { orderBy: { id: 'asc' } } },
  });
  assert.deepEqual(
    found.notes.map(({ text }: { text: string }) => text),
    ['one', 'two'],
  );
  await assert.rejects(prisma.person.create({ data: PERSON }), { code: 'P2002' });
  const many = Array.from({ length: 30 }, (_, skip) =>
    prisma.note.findMany({ where: { personId: id }, skip: skip % 3 }),
  );
  for (const [index, notes] of (await Promise.all(many)).entries()) assert.equal(notes.length, 2 - (index % 3));
}

async function commitAndRollBack(prisma: Prisma): Promise<void> {
  const { id } = await prisma.person.findFirst();
  await prisma.$transaction([prisma.note.create({ data: { text: 'three', personId: id } }), prisma.note.count()], {
    isolationLevel: 'Serializable',
  });
  const failing = prisma.$transaction(async (tx: Prisma) => {
    await tx.note.deleteMany();
    await tx.note.create({ data: { text: 'nobody', personId: -1 } });
  });
  await assert.rejects(failing, { code: 'P2003' });
  await assert.rejects(prisma.$queryRaw`select 1 / ${0}::int`, (error: Error & { meta: object }) => {
    assert.match(JSON.stringify(error.meta), /"22012"/);
    return true;
  });
  assert.equal(await prisma.note.count(), 3);
}

/** Prisma over each of its adapters that speaks to Coppice. */
export const PRISMA: readonly MatrixClient[] = [
  {
    name: 'Prisma, `adapter-pg`',
    version: packageVersion('@prisma/client'),
    hosts: BOTH_HOSTS,
    notes: 'not tried: the `prisma` command (`migrate`, `db push`), which downloads a binary',
    cases: {
      'reads and writes, commits and rolls back': async (place) => {
        const schema = tableName('prisma', place);
        await makeTables(place, schema);
        await withPrisma(new PrismaPg({ connectionString: place.uri, max: 5 }, { schema }), async (prisma) => {
          await readAndWrite(prisma);
          await commitAndRollBack(prisma);
        });
      },
    },
  },
  {
    name: 'Prisma, `adapter-neon`',
    version: packageVersion('@prisma/adapter-neon'),
    hosts: BOTH_HOSTS,
    notes: 'over WebSocket, and over HTTP as far as it goes there: without transactions',
    cases: {
      'reads and writes, commits and rolls back over WebSocket': async (place) => {
        setUpServerless(place);
        const schema = tableName('prisma_ws', place);
        await makeTables(place, schema);
        await withPrisma(new PrismaNeon({ connectionString: place.uri, max: 5 }, { schema }), async (prisma) => {
          await readAndWrite(prisma);
          await commitAndRollBack(prisma);
        });
      },
      'asks over HTTP': async (place) => {
        setUpServerless(place);
        await withPrisma(new PrismaNeonHttp(place.uri, {}), async (prisma) => {
          assert.deepEqual(await prisma.$queryRaw`select ${2}::int + 1 as sum`, [{ sum: 3 }]);
        });
      },
    },
  },
];
