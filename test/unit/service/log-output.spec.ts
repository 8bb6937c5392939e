import { describe, expect, it } from '@jest/globals';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { buffer, text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

const MODULE = fileURLToPath(new URL('../../../src/service/logging/output.js', import.meta.url));

/** How long an output waits at its end for a reader that does read, though on a busy machine it may begin late. */
const BUSY_MS = 30_000;

/** A process that does this with its output, and says on its standard error when it has begun. */
const run = (script: string, lastMs = BUSY_MS) => {
  const source = `
    import { LogOutput } from ${JSON.stringify(MODULE)};
    const output = new LogOutput(1, (lines) => 'dropped ' + lines + '\\n', ${lastMs});
    const line = (number) => output.write('line ' + number + ' 木\\n');
    ${script}`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', source], {
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  return { child, exited: once(child, 'exit') };
};

const lines = (count: number): string =>
  Array.from({ length: count }, (_, number) => `line ${number} 木\n`).join('');

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

  it('has written everything when the process exits', async () => {
    const { child, exited } = run(`
      for (let number = 0; number < 20_000; number++) line(number);
      process.exit(3);`);
    expect(await text(child.stdout)).toBe(lines(20_000));
    expect(await exited).toEqual([3, null]);
  });

  it('writes what waits where a write is under way at the exit', async () => {
    const { child, exited } = run(`
      line(1);
      await new Promise(setImmediate);
      line(2);
      process.exit(3);`);
    expect((await text(child.stdout)).split('\n')).toContain('line 2 木');
    expect(await exited).toEqual([3, null]);
  });

  it.each([
    ['at the exit', ''],
    ['before it', 'for (let turn = 0; turn < 1_000; turn++) await new Promise(setImmediate);'],
  ])('lets the process end where the reader has gone, found out %s', async (_, between) => {
    const { child, exited } = run(`
      process.stdin.resume();
      await new Promise((resolve) => process.stdin.once('end', resolve)); // nobody reads any more
      line(1);
      ${between}
      line(2);
      process.exit(3);`);
    child.stdout.destroy();
    child.stdin.end();
    expect(await exited).toEqual([3, null]);
  });

  it('holds so much for a reader that is stuck, drops the rest, and tells how much', async () => {
    const { child, exited } = run(`
      process.stdin.resume();
      const long = 'x'.repeat(1_000_000) + '\\n';
      for (let number = 0; number < 40; number++) output.write(long);
      await new Promise(setImmediate); // the first write has begun
      await new Promise(setImmediate);
      process.stderr.write('written');
      await new Promise((resolve) => process.stdin.once('end', resolve));
      output.write('after\\n');`);
    await once(child.stderr, 'data');
    const everything = text(child.stdout);
    child.stdin.end();
    const written = (await everything).split('\n');
    expect(written.filter((line) => line.startsWith('x'))).toHaveLength(17);
    expect(written.slice(17)).toEqual(['dropped 23', 'after', '']);
    expect(await exited).toEqual([0, null]);
  });

  describe('to a pipe whose reader takes nothing', () => {
    /** A process that has filled its pipe, so that a line is cut in two, and does this when it is told to go on. */
    const stuck = async (script: string, lastMs?: number) => {
      const { child, exited } = run(
        `
        process.stdout; // as the service does: the pipe does not block from then on
        process.stdin.resume();
        for (let number = 0; number < 50_000; number++) line(number);
        await Promise.race([
          new Promise((resolve) => output.flush(resolve)),
          new Promise((resolve) => setTimeout(resolve, 1_000)),
        ]);
        process.stderr.write('stuck');
        await new Promise((resolve) => process.stdin.once('end', resolve));
        line(50_000);
        ${script}`,
        lastMs,
      );
      await once(child.stderr, 'data');
      return { child, exited };
    };

    it('goes on in the middle of a line when the process exits', async () => {
      // A write that is under way at the exit is lost, as LogOutput says: it tries to write every 20 ms. Once more then.
      let written = '';
      for (let attempt = 0; attempt < 5 && written !== lines(50_001); attempt++) {
        const { child, exited } = await stuck("process.stderr.write('exits'); process.exit(3);");
        child.stdin.end();
        await once(child.stderr, 'data'); // read before, writes would be under way
        written = await text(child.stdout);
        expect(await exited).toEqual([3, null]);
      }
      expect(written).toBe(lines(50_001));
    });

    it('waits until all is written, and keeps the order of what is written at the exit', async () => {
      const { child, exited } = await stuck(`
        await new Promise((resolve) => output.flush(resolve));
        line(50_001);
        process.exit(3);`);
      const everything = text(child.stdout);
      child.stdin.end();
      expect(await everything).toBe(lines(50_002));
      expect(await exited).toEqual([3, null]);
    });

    it('lets the process end within seconds where nobody reads any more, with whole lines but for the last', async () => {
      const { child, exited } = await stuck(
        `
        await new Promise((resolve) => output.flush(resolve));
        process.exit(3);`,
        1_000,
      );
      child.stdout.on('readable', () => undefined); // else Node discards what is left when the process has ended
      child.stdin.end();
      expect(await exited).toEqual([3, null]);
      const written = await buffer(child.stdout);
      expect(written.length).toBeGreaterThan(10_000);
      // The pipe may be full in the middle of a character.
      expect(written.equals(Buffer.from(lines(50_001)).subarray(0, written.length))).toBe(true);
    });
  });

  it('has nothing to wait for where nothing waits, or where the reader has gone', async () => {
    const { child, exited } = run(`
      await new Promise((resolve) => output.flush(resolve));
      process.stdin.resume();
      await new Promise((resolve) => process.stdin.once('end', resolve)); // nobody reads any more
      line(1);
      await new Promise((resolve) => output.flush(resolve));
      await new Promise((resolve) => output.flush(resolve));
      process.exit(3);`);
    child.stdout.destroy();
    child.stdin.end();
    expect(await exited).toEqual([3, null]);
  });
});
