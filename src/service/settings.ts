/**
 * Every setting: what docs/settings.md and `plants serve --help` print. A setting is an environment variable; an empty one
 * counts as unset.
 */
export const SETTINGS = [
  { name: 'HOST', default: '127.0.0.1', meaning: 'Address to listen on; 0.0.0.0 or :: for every interface.' },
  { name: 'PORT', default: '3000', meaning: 'Port to listen on; 0 for any free one.' },
  {
    name: 'METRICS_LISTEN',
    default: '',
    meaning:
      'Where /metrics is, and /health a second time: HOST:PORT, an address of its own, or off. Unset: at HOST and PORT, with the API.',
  },
  {
    name: 'DOCS',
    default: 'on',
    meaning: 'Whether /docs and /openapi.json are there: on or off.',
  },
  {
    name: 'CONSOLE',
    default: 'on',
    meaning: 'Whether the console, a page for browsers, is there at /console (docs/console.md): on or off.',
  },
  {
    name: 'CONSOLE_CLIENT_ID',
    default: '',
    meaning:
      'The client id that the console has at AUTH_ISSUER, so that people sign in there (docs/console.md). Unset: they paste a token.',
  },
  {
    name: 'CORS_ORIGINS',
    default: '',
    meaning:
      'Web pages whose scripts may use this API, by their origins: https://app.example, several separated by commas, or * for any. Unset: none, except /docs.',
  },
  {
    name: 'ROLES',
    default: 'api,projector,auditor',
    meaning:
      'What this process does: api answers requests, projector maintains the read model, auditor the tree that proves the events (docs/audit.md). Fewer than all only on EventStoreDB and Redis.',
  },
  {
    name: 'DATA_DIR',
    default: './data',
    meaning: "Folder of the database files, of the local signing key, and of an auditor's key and tree.",
  },
  {
    name: 'EVENT_LOG',
    default: 'sqlite:DATA_DIR/events.db',
    meaning: 'Where the events are: sqlite:FILE, or EventStoreDB, esdb://HOST:2113 (docs/stores.md).',
  },
  {
    name: 'EVENT_LOG_PLAINTEXT',
    default: 'refuse',
    meaning:
      'Whether EVENT_LOG may say tls=false to another machine, so that plants and password cross the network readable: refuse or allow.',
  },
  {
    name: 'READ_MODEL',
    default: 'sqlite:DATA_DIR/lists',
    meaning:
      'Where the lists are: sqlite:FOLDER, or Redis, redis://HOST:6379 (docs/stores.md). They can be rebuilt from the events at any time.',
  },
  {
    name: 'AUTH_ISSUER',
    default: '',
    meaning:
      'Whose tokens are accepted (claim iss). Unset: a local key is made in DATA_DIR, and `plants token` signs with it.',
  },
  {
    name: 'AUTH_AUDIENCE',
    default: 'plants',
    meaning:
      'Whom a token must be meant for (claim aud): one, or any one of several, separated by commas. Required with AUTH_ISSUER.',
  },
  {
    name: 'AUTH_JWKS_URL',
    default: '',
    meaning: "Where the issuer's public keys are: https, or http on this machine. Required with AUTH_ISSUER.",
  },
  {
    name: 'AUTH_OWNER_CLAIM',
    default: 'sub',
    meaning: 'The claim that names the owner of plants. Only with AUTH_ISSUER.',
  },
  {
    name: 'TOKEN_CACHE_MB',
    default: '32',
    meaning:
      'Memory for tokens that were verified before, in MiB, 1 to 4096: 32 hold some 50,000 of 450 characters. Another token costs the check of its signature.',
  },
  {
    name: 'WRITE_WAIT_MS',
    default: '2000',
    meaning:
      'How long a write waits until lists contain it, in milliseconds, 0 to 60000. The same in every process: no list is further behind the log than that, nor than 2000.',
  },
  {
    name: 'DRAIN_MS',
    default: '3000',
    meaning:
      'How long requests are still accepted once the process was told to stop and is not ready any more, in milliseconds, 0 to 10000. Unset on a terminal: 0.',
  },
  {
    name: 'AUDIT_ORIGIN',
    default: '',
    meaning:
      'What the log is called in its signed checkpoints, such as plants.example/log. Unset: plants/ and the identity of the log.',
  },
  {
    name: 'AUDIT_RECHECK_SECONDS',
    default: '3600',
    meaning:
      'How long an auditor waits before it reads the whole log again and compares it with its tree, 1 to 31536000.',
  },
  {
    name: 'AUDIT_WITNESSES',
    default: '',
    meaning:
      'Witnesses that cosign the checkpoints: a policy file, or the verifier key of each, a space and its URL, separated by commas (docs/witnesses.md). Unset: none.',
  },
  {
    name: 'AUDIT_WITNESSES_REQUIRED',
    default: '',
    meaning:
      'How many of them a receipt waits for, 1 or more. Only with AUDIT_WITNESSES, and not with a policy file. Unset: all.',
  },
  {
    name: 'VERIFY_EVERY_SECONDS',
    default: '86400',
    meaning:
      'How long after the last comparison of the lists with the log the working projector compares them again, giving way to requests, 0 to 31536000; 0: never by itself.',
  },
  {
    name: 'VERIFY_REBUILD',
    default: 'off',
    meaning: 'Whether a difference that this comparison finds begins a rebuild by itself: on or off.',
  },
  {
    name: 'OWNER_ERASURE',
    default: 'off',
    meaning:
      'Whether an owner may erase everything of its own, for good, by DELETE /plants: on or off (docs/erasure.md).',
  },
  {
    name: 'LOG_LEVEL',
    default: 'info',
    meaning: 'fatal, error, warn, info, debug, trace or silent.',
  },
  {
    name: 'RATE_LIMIT',
    default: 'off',
    meaning:
      'Requests a minute that are answered for one owner, or off: by all processes together where READ_MODEL is Redis, else by each process.',
  },
  {
    name: 'RATE_LIMIT_STRANGERS',
    default: '',
    meaning:
      'Requests a minute without a valid token that are answered for one address (IPv6: one /64), or off; counted as RATE_LIMIT is, and behind a proxy only right with TRUSTED_PROXIES. Unset: as RATE_LIMIT.',
  },
  {
    name: 'TRUSTED_PROXIES',
    default: '',
    meaning:
      "The proxies whose X-Forwarded-For names the client: IP addresses and subnets (10.0.0.0/8), separated by commas. Unset: a client's address is that of its connection.",
  },
  {
    name: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    default: '',
    meaning:
      'Where traces go: the OpenTelemetry collector, for OTLP over HTTP, http://HOST:4318. Unset: nothing is traced.',
  },
  {
    name: 'OTEL_EXPORTER_OTLP_HEADERS',
    default: '',
    meaning: 'Header fields for the collector, NAME=VALUE,…: a secret.',
  },
  { name: 'OTEL_SERVICE_NAME', default: 'plants', meaning: 'The name of this service in traces.' },
  {
    name: 'OTEL_TRACES_SAMPLER',
    default: 'parentbased_always_on',
    meaning:
      "Which requests are traced: always_on, always_off, traceidratio, or parentbased_ before these, where a client's traceparent says so if it sends one.",
  },
  { name: 'OTEL_TRACES_SAMPLER_ARG', default: '1', meaning: 'The share of traceidratio, from 0 to 1.' },
] as const;

/** Settings that are gone, with what to do instead. A process that is given one does not start. */
export const REMOVED_SETTINGS: Readonly<Record<string, string>> = {
  WORKERS: 'for more cores run more processes with ROLES=api on EventStoreDB and Redis',
};

/** The name of a setting. */
export type SettingName = (typeof SETTINGS)[number]['name'];
