import { mkdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { beforeEach, expect, it } from '@jest/globals';
import { ownCommand } from '../../../src/cli/own-command.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

let folder: string;
let root: string;

beforeEach(() => {
  folder = temporaryFolder();
  root = join(folder, "gardener's", 'plant-store');
  mkdirSync(join(root, 'bin'), { recursive: true });
  writeFileSync(join(root, 'bin', 'plants.js'), '');
});

it('is found by npx in the checkout, and in a project that has the package', () => {
  const modules = join(folder, 'project', 'node_modules');
  mkdirSync(modules, { recursive: true });
  symlinkSync(root, join(modules, 'plant-store'));
  expect(ownCommand(root, root, '')).toBe('npx plants');
  expect(ownCommand(root, join(folder, 'project'), '')).toBe('npx plants');
});

it('is a name where the search path has it, and not where only npx has', () => {
  const global = join(folder, 'global');
  const passing = join(folder, '_npx', 'node_modules', '.bin');
  for (const place of [global, passing]) {
    mkdirSync(place, { recursive: true });
    symlinkSync(join(root, 'bin', 'plants.js'), join(place, 'plants'));
  }
  const byFile = `node '${join(realpathSync(root), 'bin', 'plants.js').replace("'", "'\\''")}'`;
  expect(ownCommand(root, folder, ['/nowhere', global].join(delimiter))).toBe('plants');
  expect(ownCommand(root, folder, passing)).toBe(byFile);
});
