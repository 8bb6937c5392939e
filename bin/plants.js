#!/usr/bin/env node
// In git, not built: npx links a command when it first sees the package, which may be before the first build.
import { closeSync, existsSync, openSync } from 'node:fs';

const built = new URL('../build/src/cli/plants.js', import.meta.url);
if (existsSync(built))
  await import(built.href).catch((error) => {
    // Node opens all files of an import at once; what it cannot open for lack of descriptors it may call missing.
    if (!fewOpenFiles()) throw error;
    process.stderr.write(
      'plants: this process may have too few files open: raise the limit (ulimit -n) to 512\n',
    );
    process.exitCode = 1;
  });
else {
  process.stderr.write('plants: not built yet; run: npm run build\n');
  process.exitCode = 1;
}

/** True if this process may open fewer files than it needs to load the command. */
function fewOpenFiles() {
  const opened = [];
  try {
    while (opened.length < 300) opened.push(openSync(new URL(import.meta.url), 'r'));
    return false;
  } catch {
    return true;
  } finally {
    for (const file of opened) closeSync(file);
  }
}
