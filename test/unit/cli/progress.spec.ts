import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { Progress } from '../../../src/cli/progress.js';

/** Standard error: a terminal, or a file. */
class Screen extends Writable {
  text = '';
  readonly columns = 120;
  constructor(readonly isTTY: boolean) {
    super();
  }
  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString();
    done();
  }
}

describe('progress', () => {
  let time = 0;
  beforeEach(() => {
    time = 1_000;
    jest.spyOn(performance, 'now').mockImplementation(() => time);
  });
  afterEach(() => {
    jest.restoreAllMocks();
  });

  type Step = readonly [afterMs: number, phase: string, done: number, total?: number | null, detail?: string];

  /** The output of these steps, and of an end that is called twice, `endsAfterMs` after the last of them. */
  const written = (isTTY: boolean, steps: readonly Step[], endsAfterMs = 0, json = false): string => {
    const screen = new Screen(isTTY);
    const progress = new Progress({ json }, screen as unknown as typeof process.stderr);
    progress.end();
    for (const [afterMs, phase, done, total = null, detail] of steps) {
      time += afterMs;
      const unit = detail === undefined ? 'events' : '%';
      progress.show({ phase, unit, done, total, ...(detail !== undefined && { detail }) });
    }
    time += endsAfterMs;
    progress.end();
    progress.end();
    return screen.text;
  };

  it.each<readonly [string, number, readonly Step[], string]>([
    ['nothing where nothing was begun', 0, [], ''],
    ['the end, where it was quick', 0, [[0, 'reading', 1, 1]], 'reading: 1 of 1 events, 1000/s, 0 s left\n'],
    [
      'a line every five seconds, and one at the end',
      0,
      [
        [0, 'reading', 0, 100],
        [4_999, 'reading', 10, 100],
        [1, 'reading', 20, 100],
        [5_000, 'reading', 100, 100],
      ],
      'reading: 20 of 100 events, 4/s, 20 s left\n' +
        'reading: 100 of 100 events, 10/s, 0 s left\n'.repeat(2),
    ],
    [
      'no time left where there is no total, or no rate yet',
      1_000,
      [
        [0, 'counting', 3],
        [1_000, 'reading', 0, 100],
      ],
      'counting: 3 events, 3/s\nreading: 0 of 100 events, 0/s\n',
    ],
    [
      'a share, with what is known beside it',
      0,
      [
        [0, 'rebuild', 0, 100, 'waiting'],
        [5_000, 'rebuild', 50, 100, 'building'],
        [1_000, 'rebuild', 100, 100, 'promoting'],
      ],
      'rebuild: 50% building\nrebuild: 100% promoting\n',
    ],
  ])('in a file is %s', (_what, endsAfterMs, steps, text) => {
    expect(written(false, steps, endsAfterMs)).toBe(text);
  });

  it.each<readonly [string, readonly Step[], RegExp]>([
    [
      'a bar with rate and time left',
      [
        [0, 'reading', 0, 200],
        [10_000, 'reading', 50, 200],
      ],
      /reading .* 0% 0 of 200 events, 0\/s, .* left.*reading .* 25% 50 of 200 events, 5\/s, .* left\s*$/s,
    ],
    [
      'a count where there is no total; another phase is another bar',
      [
        [0, 'counting', 0],
        [1_000, 'counting', 7],
        [0, 'comparing', 1],
      ],
      /^(?!.*(%|left)).*counting {2}7 events, 7\/s.*comparing 1 events/s,
    ],
    [
      'a whole bar of a phase that another one follows',
      [
        [0, 'reading', 90, 200],
        [1_000, 'checking', 50, 200],
      ],
      /reading .* 100% 200 of 200 events.*checking .* 25% 50 of 200 events, .* left\s*$/s,
    ],
    [
      'a bar of a share',
      [
        [0, 'rebuild', 0, 100, 'waiting'],
        [1_000, 'rebuild', 25, 100, 'building, 3 s left'],
      ],
      /rebuild .* 0% .*rebuild .* 25% building, 3 s left\s*$/s,
    ],
  ])('on a terminal is %s, and the terminal is given back', (_what, steps, drawn) => {
    const text = written(true, steps);
    expect(stripVTControlCharacters(text)).toMatch(drawn);
    expect(text).toContain('\x1b[?25l');
    expect(text.lastIndexOf('\x1b[?25h')).toBeGreaterThan(text.lastIndexOf('\x1b[?25l'));
  });

  it('is nothing where JSON is printed', () => {
    expect(written(true, [[0, 'reading', 50, 200]], 0, true)).toBe('');
  });
});
