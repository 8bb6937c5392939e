/**
 * `npm run messages` writes docs/messages.md: the texts that a user meets when something is wrong. They are read from
 * the sources: the table of problems, the alarms, and the texts of errors and of the log's warnings.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { argv } from 'node:process';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { parse } from 'yaml';
import { PROBLEMS } from '../../src/http/problem.js';

export const MESSAGES = 'docs/messages.md';

/** The classes that are errors. `RangeError` and `TypeError` are not for users: they tell of a wrong call. */
const errorsOf = (text: string): Set<string> => {
  const errors = new Set(['Error', 'InvalidArgumentError']);
  const classes = [...text.matchAll(/class (\w+) extends (\w+)/g)];
  for (let known = 0; known < errors.size;) {
    known = errors.size;
    for (const [, name = '', parent = ''] of classes) if (errors.has(parent)) errors.add(name);
  }
  return errors;
};

/** An expression within a text, by its last name: `{path}` for `String(path)`. */
const placeholder = (expression: ts.Expression): string => {
  const bare = expression
    .getText()
    .replaceAll(/'[^']*'|\[\d+\]/g, '')
    .replaceAll(/\.(?:join|slice|trim|trimEnd|toString|toISOString|length)\b(?:\([^()]*\))?/g, '');
  return `{${bare.match(/\b[A-Za-z_]\w*/g)?.at(-1) ?? 'value'}}`;
};

const textOf = (node: ts.Node): string => {
  if (ts.isStringLiteralLike(node)) return node.text;
  if (!ts.isTemplateExpression(node)) return '';
  const spans = node.templateSpans.map(({ expression, literal }) => placeholder(expression) + literal.text);
  return [node.head.text, ...spans].join('');
};

const visit = (node: ts.Node, see: (node: ts.Node) => void): void => {
  see(node);
  node.forEachChild((child) => {
    visit(child, see);
  });
};

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('<', '&lt;');
const row = (...cells: readonly string[]): string => `| ${cells.map(cell).join(' | ')} |`;

/** The texts of more than one word in these arguments. */
const textsIn = (args: readonly ts.Node[]): string[] => {
  const texts: string[] = [];
  for (const arg of args) visit(arg, (node) => void texts.push(textOf(node).replaceAll(/\s+/g, ' ').trim()));
  return texts.filter((text) => /\S \S/.test(text.replaceAll(/\{\w+\}/g, '').trim()));
};

/** The text of docs/messages.md. */
export const messages = (): string => {
  const names = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.ts'),
  );
  const files = names.map(
    (name) => [dirname(join('src', name)), readFileSync(join('src', name), 'utf8')] as const,
  );
  const errorNames = errorsOf(files.map(([, text]) => text).join('\n'));
  const errors = new Set<string>();
  const log = new Set<string>();
  for (const [folder, text] of files)
    visit(ts.createSourceFile('.ts', text, ts.ScriptTarget.Latest, true), (node) => {
      const add = (to: Set<string>, args: readonly ts.Node[] = []): void => {
        for (const found of textsIn(args)) to.add(row(folder, found));
      };
      if (ts.isNewExpression(node) && errorNames.has(node.expression.getText())) add(errors, node.arguments);
      if (!ts.isCallExpression(node)) return;
      const called = node.expression;
      if (called.kind === ts.SyntaxKind.SuperKeyword) add(errors, node.arguments);
      if (ts.isPropertyAccessExpression(called) && /^(warn|error|fatal)$/.test(called.name.text))
        add(log, node.arguments);
    });
  const { groups } = parse(readFileSync('docs/alerts.yml', 'utf8')) as {
    groups: { rules: { alert: string; annotations: Record<'summary' | 'action', string> }[] }[];
  };
  return `# Messages

What the service and its commands say when something is wrong; \`{name}\` is a value. \`npm run messages\` writes this page from the sources. It covers the problems of the API, the alarms, the texts that errors are made with, and the warnings of the log. Texts that are put together elsewhere, the output of commands and the console are not in it.

## Problems of the API

| code | status | title | advice |
| --- | --- | --- | --- |
${Object.entries(PROBLEMS)
  .map(([code, { status, title, advice }]) => row(`\`${code}\``, String(status), title, advice))
  .join('\n')}

## Alarms of docs/alerts.yml

| alarm | summary | action |
| --- | --- | --- |
${groups.flatMap(({ rules }) => rules.map(({ alert, annotations: { summary, action } }) => row(alert, summary, action))).join('\n')}

## Errors, by folder

A command prints one after \`error: \`; over HTTP one is the detail of a problem.

| folder | message |
| --- | --- |
${[...errors].sort().join('\n')}

## Warnings and errors in the log, by folder

| folder | message |
| --- | --- |
${[...log].sort().join('\n')}
`;
};

if (argv[1] === fileURLToPath(import.meta.url)) writeFileSync(MESSAGES, messages());
