/** The boundaries of docs/architecture.md, each with its reason. */
module.exports = {
  forbidden: [
    {
      name: 'plants-imports-nothing',
      comment:
        'plants is what auditors read to know the rules: pure functions over plain data, no I/O, no library.',
      severity: 'error',
      from: { path: '^src/plants/' },
      to: { pathNot: '^src/plants/' },
    },
    {
      name: 'ports-import-plants-only',
      comment:
        'A port is a promise in words of the domain; an adapter or a framework in it would bind every implementer.',
      severity: 'error',
      from: { path: '^src/ports/' },
      to: { pathNot: '^src/(plants|ports)/' },
    },
    {
      name: 'core-knows-no-adapter',
      comment:
        'write, read, projector and audit work on any log and any read model, so they know only the ports.',
      severity: 'error',
      from: { path: '^src/(write|read|projector|audit)/' },
      to: { path: '^src/(adapters|http)/|^src/[^/]+\\.ts$' },
    },
    {
      name: 'core-parts-are-apart',
      comment:
        'Writing, reading and projecting are scaled and reasoned about separately; they meet in the log and the read model.',
      severity: 'error',
      from: { path: '^src/(write|read|projector|audit)/' },
      to: { path: '^src/(write|read|projector|audit)/', pathNot: '^src/$1/' },
    },
    {
      name: 'adapters-implement-ports-only',
      comment: 'An adapter that knew its callers could not be replaced by another.',
      severity: 'error',
      from: { path: '^src/adapters/([^/]+)/' },
      to: { path: '^src/(?!plants/|ports/|adapters/|files/)' },
    },
    {
      name: 'files-imports-nothing',
      comment: 'It is what the file system lacks, for whoever makes files.',
      severity: 'error',
      from: { path: '^src/files/' },
      to: { path: '^src/(?!files/)' },
    },
    {
      name: 'adapters-are-apart',
      comment: 'SQLite, EventStoreDB and Redis are chosen one by one.',
      severity: 'error',
      from: { path: '^src/adapters/([^/]+)/' },
      to: { path: '^src/adapters/([^/]+)/', pathNot: '^src/adapters/$1/' },
    },
    {
      name: 'http-knows-no-adapter',
      comment:
        'Only the wiring (app.module.ts, cli.ts) names an adapter; HTTP speaks to the buses and the ports.',
      severity: 'error',
      from: { path: '^src/http/' },
      to: { path: '^src/adapters/' },
    },
    {
      name: 'operate-knows-no-adapter',
      comment:
        "An operator's command works the same on every log and every read model; cli.ts and main.ts give it the ports.",
      severity: 'error',
      from: { path: '^src/operate/' },
      to: { path: '^src/(adapters|http)/|^src/(main|app\\.module|cli|stores|config)\\.ts$' },
    },
    {
      name: 'database-clients-in-adapters-only',
      comment: 'A database client that is used elsewhere cannot be replaced by choosing another URL.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/adapters/' },
      to: { path: 'node_modules/(@photostructure/sqlite|redis|@redis|@eventstore)|^(node:)?sqlite$' },
    },
    {
      name: 'opentelemetry-in-tracing-only',
      comment: 'Spans are made around the ports and the requests: whoever is traced does not know.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/tracing/' },
      to: { path: 'node_modules/@opentelemetry' },
    },
    {
      name: 'tracing-is-loaded-when-wanted',
      comment: 'Tracing that is off costs nothing, so nothing of it may be loaded by an ordinary import.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/tracing/' },
      to: { path: '^src/tracing/', dynamic: false, dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'swagger-in-openapi-only',
      comment: 'It is loaded when somebody asks for the document: no start waits for its 500 files.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/http/openapi\\.ts$' },
      to: { path: 'node_modules/@nestjs/swagger' },
    },
    {
      name: 'loaded-when-wanted',
      comment: 'Who imports one of these in the ordinary way makes every start wait for it.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/http/documents\\.worker\\.ts$' },
      to: {
        path: '^src/(http/openapi|http/auth/counted-rate-limit|readable-log)\\.ts$',
        dynamic: false,
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'no-cycles',
      comment: 'A cycle means that two files are one thing with two names.',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    {
      name: 'no-orphans',
      comment: 'A file that nothing imports is dead.',
      severity: 'error',
      from: { orphan: true, pathNot: '^src/(main|cli)\\.ts$|worker\\.ts$' },
      to: {},
    },
  ],
  options: {
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'types', 'default'] },
  },
};
