/**
 * Types (`--type-check`) and rules; oxfmt looks at the form. Both take 26 s of processor time, where tsc, typescript-eslint
 * and Prettier took 176 s.
 */
import { readFileSync } from 'node:fs';

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

/** The strict and stylistic rules of typescript-eslint, of which half ask for types, as far as they have no options here. */
const CORE = `
  no-array-constructor no-empty-function no-unused-expressions no-unused-vars no-useless-constructor no-var
  prefer-const prefer-rest-params prefer-spread
`;
const TYPED = `
  adjacent-overload-signatures array-type await-thenable ban-tslint-comment class-literal-property-style
  consistent-generic-constructors consistent-indexed-object-style consistent-type-assertions
  consistent-type-definitions dot-notation no-array-delete no-base-to-string
  no-confusing-non-null-assertion no-confusing-void-expression no-deprecated no-duplicate-enum-values
  no-duplicate-type-constituents no-dynamic-delete no-empty-object-type no-explicit-any
  no-extra-non-null-assertion no-floating-promises no-for-in-array no-generated-empty-object-type
  no-implied-eval no-inferrable-types no-invalid-void-type no-meaningless-void-operator no-misused-new
  no-misused-promises no-misused-spread no-mixed-enums no-namespace no-non-null-asserted-nullish-coalescing
  no-non-null-asserted-optional-chain no-non-null-assertion no-redundant-type-constituents
  no-require-imports no-this-alias no-unnecessary-boolean-literal-compare no-unnecessary-template-expression
  no-unnecessary-type-arguments no-unnecessary-type-assertion no-unnecessary-type-constraint
  no-unnecessary-type-conversion no-unnecessary-type-parameters no-unsafe-argument no-unsafe-assignment
  no-unsafe-call no-unsafe-declaration-merging no-unsafe-enum-assignment no-unsafe-enum-comparison
  no-unsafe-function-type no-unsafe-member-access no-unsafe-return no-unsafe-unary-minus
  no-useless-default-assignment no-wrapper-object-types non-nullable-type-assertion-style only-throw-error
  prefer-as-const prefer-find prefer-for-of prefer-function-type prefer-includes prefer-literal-enum-member
  prefer-namespace-keyword prefer-nullish-coalescing prefer-optional-chain prefer-promise-reject-errors
  prefer-reduce-type-parameter prefer-regexp-exec prefer-return-this-type prefer-string-starts-ends-with
  related-getter-setter-pairs require-await triple-slash-reference unbound-method unified-signatures
  use-unknown-in-catch-callback-variable
`;

const errors = (names, plugin = '') =>
  Object.fromEntries(
    names
      .trim()
      .split(/\s+/)
      .map((name) => [plugin + name, 'error']),
  );

/** A name that a rule forbids, with the reason. */
const named = (name) => ({ name, message: FROM_RUNTIME });

/** ESLint's own rule, which oxlint has by its plugin alone. */
const syntax = (...restricted) => ({ 'eslint-js/no-restricted-syntax': ['error', ...restricted] });

export default {
  plugins: ['typescript'],
  jsPlugins: [{ name: 'eslint-js', specifier: 'oxlint-plugin-eslint' }],
  categories: { correctness: 'off' },
  // The generated clients are compiled by their test, with what is generated.
  ignorePatterns: ['build', '.build-*', 'coverage', 'data', 'test/generated-clients'],
  overrides: [
    {
      files: ['src/**/*.ts', 'console/**/*.{ts,tsx}', 'test/**/*.ts', 'bench/**/*.ts'],
      rules: {
        ...errors(CORE),
        ...errors(TYPED, 'typescript/'),
        'typescript/ban-ts-comment': ['error', { minimumDescriptionLength: 10 }],
        'typescript/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
        'typescript/restrict-plus-operands': [
          'error',
          {
            allowAny: false,
            allowBoolean: false,
            allowNullish: false,
            allowNumberAndString: false,
            allowRegExp: false,
          },
        ],
        'typescript/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
        'typescript/return-await': ['error', 'error-handling-correctness-only'],
        // A Nest module is a class with no members: the decorator is its content.
        'typescript/no-extraneous-class': ['error', { allowWithDecorator: true }],
        // Declared by types alone is not checked at run time: what comes from outside may still be undefined.
        'typescript/no-unnecessary-condition': [
          'error',
          { allowConstantLoopConditions: 'only-allowed-literals' },
        ],
      },
    },
    // The benchmark prints to a terminal.
    { files: ['src/**/*.ts', 'console/**/*.{ts,tsx}', 'test/**/*.ts'], rules: { 'no-console': 'error' } },
    {
      files: ['src/**/*.ts', 'console/**/*.{ts,tsx}'],
      rules: {
        'max-lines': ['error', 800],
        'max-lines-per-function': ['error', 70],
        'no-warning-comments': ['error', { terms: FORBIDDEN, location: 'anywhere' }],
      },
    },
    { files: ['test/**/*.spec.ts'], rules: syntax(...NO_OWN_LIMIT) },
    {
      files: ['src/**/*.ts', 'console/**/*.{ts,tsx}', 'test/simulation/**/*.ts'],
      excludeFiles: ['test/simulation/**/*.spec.ts'],
      rules: syntax(...NO_EVENT_TYPES),
    },
    { files: ['test/simulation/**/*.spec.ts'], rules: syntax(...NO_EVENT_TYPES, ...NO_OWN_LIMIT) },
    {
      files: [
        ...SIMULATED.map((room) => `src/${room}/*.ts`),
        'src/runtime/**/*.ts',
        'src/lists/redis/active-generation.ts',
      ],
      excludeFiles: ['src/runtime/runtime.ts', 'src/log/append-health.ts'], // the latter is of real logs alone
      rules: {
        'no-restricted-globals': [
          'error',
          ...[
            'performance',
            'setTimeout',
            'setInterval',
            'setImmediate',
            'clearTimeout',
            'clearInterval',
          ].map(named),
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
        ...syntax(...NO_EVENT_TYPES, NO_DATE),
        'no-restricted-imports': [
          'error',
          {
            paths: [
              ...['node:timers', 'node:timers/promises', 'node:perf_hooks'].map(named),
              {
                ...named('node:crypto'),
                importNames: ['randomUUID', 'randomBytes', 'randomInt', 'getRandomValues', 'webcrypto'],
              },
              { ...named('uuid'), importNames: ['v1', 'v4', 'v6', 'v7'] },
            ],
          },
        ],
      },
    },
    { files: ['src/domain/**/*.ts'], rules: syntax(NO_DATE) },
  ],
};
