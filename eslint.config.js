import { readFileSync } from 'node:fs';
import { defineConfig } from 'eslint/config';
import prettier from 'eslint-config-prettier';
import tseslint from 'typescript-eslint';

/** Words that comments must not contain, as documents must not. */
const FORBIDDEN = Object.keys(JSON.parse(readFileSync('forbidden-words.json', 'utf8')));

export default defineConfig(
  // The generated clients are compiled by their test, with what is generated.
  { ignores: ['build', 'coverage', 'data', 'test/generated-clients'] },
  {
    files: ['src/**/*.ts', 'test/**/*.ts', 'bench/**/*.ts'],
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
    files: ['src/**/*.ts'],
    rules: {
      'max-lines': ['error', 400],
      'max-lines-per-function': ['error', 70],
      'no-warning-comments': ['error', { terms: FORBIDDEN, location: 'anywhere' }],
    },
  },
  {
    // The benchmark prints to a terminal.
    files: ['bench/**/*.ts'],
    rules: { 'no-console': 'off' },
  },
  prettier,
);
