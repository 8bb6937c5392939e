import { describe, expect, it } from '@jest/globals';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

const MODULE = fileURLToPath(new URL('../../../src/service/logging/output.js', import.meta.url));

/** A process that does this with its output. */
const run = (script: string) => {
  const source = `
    import { standardOutput } from ${JSON.stringify(MODULE)};
    const output = standardOutput((lines) => 'dropped ' + lines + '\\n');
    const line = (number) => output.write('line ' + number + ' 木\\n');
    const told = () => new Promise((resolve) => process.stdin.resume().once('end', resolve));
    ${script}`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', source], {
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  return { child, exited: once(child, 'exit') };
};

const lines = (count: number): string =>
  Array.from({ length: count }, (_, number) => `line ${number} 木\n`).join('');

/** The lines of a text, in the order of their numbers. */
const inOrder = (written: string): string =>
  written
    .split(/(?<=\n)/)
    .sort((one, other) => Number(/\d+/.exec(one)?.[0]) - Number(/\d+/.exec(other)?.[0]))
    .join('');

describe('the output of the log', () => {
  it('writes lines in their order, those of later turns, too', async () => {
    const { child, exited } = run(`
      for (let number = 0; number < 50_000; number++) {
        line(number);
        if (number % 100 === 0) await new Promise(setImmediate);
      }`);
    expect(await text(child.stdout)).toBe(lines(50_000));
    expect(await exited).toEqual([0, null]);
  });

  it.each([
    ['exits', ''],
    ['ends the output before', 'await new Promise((resolve) => output.flush(resolve));'],
  ])('has written everything when the process %s', async (_, before) => {
    const { child, exited } = run(`
      for (let number = 0; number < 20_000; number++) line(number);
      ${before}
      process.exit(3);`);
    // The piece that is being written at the exit may come late.
    expect(inOrder(await text(child.stdout))).toBe(lines(20_000));
    expect(await exited).toEqual([3, null]);
  });

  it('drops what comes after its end, as a connection that is closed last may say', async () => {
    const { child, exited } = run(`
      line(0);
      await new Promise((resolve) => output.flush(resolve));
      line(1);
      process.once('exit', () => line(2));
      process.exit(3);`);
    expect(await text(child.stdout)).toBe(lines(1));
    expect(await exited).toEqual([3, null]);
  });

  it('lets the process go on, and end, where the reader has gone', async () => {
    const { child, exited } = run(`
      await told(); // nobody reads any more
      for (let number = 0; number < 1_000; number++) {
        line(number);
        await new Promise(setImmediate);
      }
      await new Promise((resolve) => output.flush(resolve));
      process.exit(3);`);
    child.stdout.destroy();
    child.stdin.end();
    expect(await exited).toEqual([3, null]);
  });

  it('holds so much for a reader that is stuck, drops the rest, and tells how much', async () => {
    const { child, exited } = run(`
      const long = 'x'.repeat(1_000_000) + '\\n';
      for (let number = 0; number < 40; number++) output.write(long);
      process.stderr.write('written');
      await told();
      output.write('after\\n');`);
    await once(child.stderr, 'data');
    const everything = text(child.stdout);
    child.stdin.end();
    const written = (await everything).split('\n');
    expect(written.filter((line) => line.startsWith('x'))).toHaveLength(16);
    expect(written.filter((line) => !line.startsWith('x')).sort()).toEqual(['', 'after', 'dropped 24']);
    expect(await exited).toEqual([0, null]);
  });

  it.each([
    ['exits', ''],
    ['ends the output before', 'await new Promise((resolve) => output.flush(resolve));'],
  ])('lets a process end whose reader takes nothing: it %s', async (_, before) => {
    const { child, exited } = run(`
      process.stdout; // as the service does: the pipe does not block from then on
      for (let number = 0; number < 50_000; number++) line(number);
      ${before}
      process.exit(3);`);
    child.stdout.on('readable', () => undefined); // else Node discards what is left when the process has ended
    expect(await exited).toEqual([3, null]);
  });
});
