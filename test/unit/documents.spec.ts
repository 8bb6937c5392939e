import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, it } from '@jest/globals';
import { Command } from 'commander';
import { addCommands } from '../../src/cli/commands/all.js';
import { MESSAGES, messages } from '../support/messages.js';

const DOCUMENTS = readdirSync('.', { encoding: 'utf8' })
  .concat(readdirSync('docs', { encoding: 'utf8' }).map((name) => join('docs', name)))
  .filter((name) => name.endsWith('.md'));

/** The anchors of a document's headings, as GitHub names them. */
const anchorsOf = (file: string): string[] =>
  [...readFileSync(file, 'utf8').matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  );

it.each(DOCUMENTS)('%s: every link leads to a file, and to a heading in it', (file) => {
  const links = [...readFileSync(file, 'utf8').matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link);
  const broken = links.filter((link) => {
    if (/^https?:/.test(link)) return false;
    const [path = '', anchor] = link.split('#');
    const target = path === '' ? file : join(dirname(file), path);
    return !existsSync(target) || (anchor !== undefined && !anchorsOf(target).includes(anchor));
  });
  expect(broken).toEqual([]);
});

const SCRIPTS = (JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> })
  .scripts;

it.each(DOCUMENTS.filter((name) => name !== 'CHANGELOG.md'))(
  '%s: files of src/ and npm scripts that it names exist',
  (file) => {
    const text = readFileSync(file, 'utf8');
    const files = [...text.matchAll(/`(src\/[\w./-]+)`/g)].map(([, path = '']) => path);
    expect(files.filter((path) => !existsSync(path))).toEqual([]);
    const scripts = [...text.matchAll(/npm run (?:--silent )?([\w:]+)/g)].map(([, name = '']) => name);
    expect(scripts.filter((name) => SCRIPTS[name] === undefined)).toEqual([]);
  },
);

const COMMANDS = await addCommands(new Command('plants'));

/** The names in a command line that do not exist: the command, or its options. */
const unknownIn = (line: string): string[] => {
  const [name = '', ...words] = line.split(/\s+/);
  const command = COMMANDS.commands.find((one) => one.name() === name);
  if (!command) return [name];
  const known = new Set(['--help', ...command.options.map(({ long }) => long ?? '')]);
  const options = words.map((word) => /^--[\w-]+/.exec(word)?.[0] ?? '').filter((word) => word !== '');
  return options.filter((option) => !known.has(option)).map((option) => `${name} ${option}`);
};

it.each(DOCUMENTS)('%s: commands and options of plants that it names exist', (file) => {
  const text = readFileSync(file, 'utf8');
  const code = [...text.matchAll(/^```\w*\n([^]*?)^```$|`([^`\n]+)`/gm)].map(
    ([, block, span]) => block ?? span ?? '',
  );
  const lines = code.join('\n').split('\n');
  const named = lines.flatMap((line) =>
    [...line.matchAll(/(?:^|npx |[$(;|] ?|bin\/)plants(?:\.js)? ([a-z][^#)|;>]*)/g)].map(([, command = '']) =>
      command.trim(),
    ),
  );
  expect(named.flatMap(unknownIn)).toEqual([]);
});

/** They need no example: they are called by their names. */
const PLAIN = ['serve', 'demo'];

it.each(COMMANDS.commands.map((command) => command.name()).filter((name) => name !== 'complete'))(
  'plants %s --help shows an example, and its exit statuses',
  (name) => {
    let help = '';
    const command = COMMANDS.commands.find((one) => one.name() === name);
    command?.configureOutput({ writeOut: (text) => (help += text) }).outputHelp();
    expect(help).toMatch(/^Exit status: 0/m);
    if (!PLAIN.includes(name)) expect(help).toMatch(new RegExp(`^Examples?:\n.*npx plants ${name}`, 'm'));
  },
);

const FORBIDDEN = Object.keys(JSON.parse(readFileSync('forbidden-words.json', 'utf8')) as object);

it.each(DOCUMENTS)('%s: uses no word of forbidden-words.json', (file) => {
  const text = readFileSync(file, 'utf8').replaceAll(/```[^]*?```|`[^`\n]+`/g, '');
  expect(FORBIDDEN.filter((word) => new RegExp(`\\b${word}\\b`, 'i').test(text))).toEqual([]);
});

it('docs/messages.md is what npm run messages writes', () => {
  expect(readFileSync(MESSAGES, 'utf8')).toBe(messages());
});
