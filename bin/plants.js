#!/usr/bin/env node
// In git, not built: npx links a command when it first sees the package, which may be before the first build.
import { existsSync } from 'node:fs';

const built = new URL('../dist/cli.js', import.meta.url);
if (existsSync(built)) await import(built.href);
else {
  process.stderr.write('plants: not built yet; run: npm run build\n');
  process.exitCode = 1;
}
