import { readFileSync } from 'node:fs';
import { defineConfig } from 'eslint/config';
import prettier from 'eslint-config-prettier';
import tseslint from 'typescript-eslint';

/** The rooms that the simulator runs: what differs from run to run comes from src/runtime/runtime.ts (docs/simulation.md). */
const SIMULATED = [
  'domain',
  'log',
  'lists',
  'commands',
  'projection',
  'history',
  'audit',
  'erasure',
  'transparency',
];
const FROM_RUNTIME =
  'Take it from src/runtime/runtime.ts, which the simulator replaces; the time of day is handed over as `now`.';

/** A limit of one test measures the machine, unless it follows from how much is asked for: jest.config.js has one for all. */
const NO_OWN_LIMIT = [
  'CallExpression[callee.name=/^(it|test)$/][arguments.2.type="Literal"]',
  'CallExpression[callee.callee.object.name=/^(it|test)$/][arguments.2.type="Literal"]',
  'CallExpression[callee.name=/^(before|after)(All|Each)$/][arguments.1.type="Literal"]',
].map((selector) => ({ selector, message: 'The limit of time is the same for all tests (jest.config.js).' }));

/** Only src/domain knows the effects of event types: code elsewhere that compares types would miss the next one. */
const NO_EVENT_TYPES = [
  ...[
    'BinaryExpression',
    'SwitchCase',
    'MemberExpression > ArrayExpression',
    'NewExpression > ArrayExpression',
  ],
  'CallExpression[callee.property.name=/^(has|includes|startsWith)$/]',
].map((place) => ({
  selector: `${place} > Literal[value=/^Plant[A-Z][A-Za-z]*ed$/]`,
  message: 'Ask effectOf or removesPlant of src/domain/plant.ts what an event does.',
}));

const NO_DATE = { selector: 'NewExpression[callee.name="Date"][arguments.length=0]', message: FROM_RUNTIME };

/** Words that comments must not contain, as documents must not. */
const FORBIDDEN = Object.keys(JSON.parse(readFileSync('forbidden-words.json', 'utf8')));

export default defineConfig(
  // The generated clients are compiled by their test, with what is generated.
  { ignores: ['build', '.build-*', 'coverage', 'data', 'test/generated-clients'] },
  {
    files: ['src/**/*.ts', 'console/**/*.{ts,tsx}', 'test/**/*.ts', 'bench/**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
      // A Nest module is a class with no members: the decorator is its content.
      '@typescript-eslint/no-extraneous-class': ['error', { allowWithDecorator: true }],
      // Nest takes its options as plain objects, and types them by classes.
      '@typescript-eslint/no-unsafe-class-instance-assignment': 'off',
      // Declared by types alone is not checked at run time: what comes from outside may still be undefined.
      '@typescript-eslint/no-unnecessary-condition': [
        'error',
        { allowConstantLoopConditions: 'only-allowed-literals' },
      ],
      'no-console': 'error',
    },
  },
  {
    files: ['src/**/*.ts', 'console/**/*.{ts,tsx}'],
    rules: {
      'max-lines': ['error', 800],
      'max-lines-per-function': ['error', 70],
      'no-warning-comments': ['error', { terms: FORBIDDEN, location: 'anywhere' }],
    },
  },
  { files: ['test/**/*.spec.ts'], rules: { 'no-restricted-syntax': ['error', ...NO_OWN_LIMIT] } },
  {
    files: ['src/**/*.ts', 'console/**/*.{ts,tsx}', 'test/simulation/**/*.ts'],
    ignores: ['test/simulation/**/*.spec.ts'],
    rules: { 'no-restricted-syntax': ['error', ...NO_EVENT_TYPES] },
  },
  {
    files: ['test/simulation/**/*.spec.ts'],
    rules: { 'no-restricted-syntax': ['error', ...NO_EVENT_TYPES, ...NO_OWN_LIMIT] },
  },
  {
    files: [
      ...SIMULATED.map((room) => `src/${room}/*.ts`),
      'src/runtime/**/*.ts',
      'src/lists/redis/active-generation.ts',
    ],
    ignores: ['src/runtime/runtime.ts', 'src/log/append-health.ts'], // the latter is of real logs alone
    rules: {
      'no-restricted-globals': [
        'error',
        ...['performance', 'setTimeout', 'setInterval', 'setImmediate', 'clearTimeout', 'clearInterval'].map(
          (name) => ({ name, message: FROM_RUNTIME }),
        ),
      ],
      'no-restricted-properties': [
        'error',
        ...[
          ['Date', 'now'],
          ['Math', 'random'],
          ['AbortSignal', 'timeout'],
          ['process', 'hrtime'],
        ].map(([object, property]) => ({ object, property, message: FROM_RUNTIME })),
      ],
      'no-restricted-syntax': ['error', ...NO_EVENT_TYPES, NO_DATE],
      'no-restricted-imports': [
        'error',
        {
          paths: [
            ...['node:timers', 'node:timers/promises', 'node:perf_hooks'].map((name) => ({
              name,
              message: FROM_RUNTIME,
            })),
            {
              name: 'node:crypto',
              importNames: ['randomUUID', 'randomBytes', 'randomInt', 'getRandomValues', 'webcrypto'],
              message: FROM_RUNTIME,
            },
            { name: 'uuid', importNames: ['v1', 'v4', 'v6', 'v7'], message: FROM_RUNTIME },
          ],
        },
      ],
    },
  },
  { files: ['src/domain/**/*.ts'], rules: { 'no-restricted-syntax': ['error', NO_DATE] } },
  {
    // The benchmark prints to a terminal.
    files: ['bench/**/*.ts'],
    rules: { 'no-console': 'off' },
  },
  prettier,
);
