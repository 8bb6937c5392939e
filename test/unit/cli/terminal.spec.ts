import { describe, expect, it } from '@jest/globals';
import { pause } from '../../../src/cli/context.js';
import { duration, printable, table } from '../../../src/cli/terminal.js';
import { Interrupted } from '../../../src/cli/interrupted.js';

describe('what is printed', () => {
  it.each([
    [0, '0 s'],
    [0.04, '0 s'],
    [2.35, '2.4 s'],
    [9.96, '10 s'],
    [59.4, '59 s'],
    [59.6, '1 min'],
    [61, '1 min 1 s'],
    [3_599, '59 min 59 s'],
    [3_600, '1 h 0 min'],
    [7_380, '2 h 3 min'],
  ])('says %p seconds as %p', (seconds, text) => {
    expect(duration(seconds)).toBe(text);
  });

  it('has columns as wide as their widest cell, and nothing after the last', () => {
    expect(
      table([
        ['NAME', 'AGE'],
        ['oak', '300'],
        ['sequoia', '-'],
      ]),
    ).toBe('NAME     AGE\noak      300\nsequoia  -');
    expect(table([])).toBe('');
  });

  it.each([
    ['\x1b[2J', '\\u{1b}[2J'],
    ['a\nb', 'a\\u{a}b'],
    ['\u202egnol', '\\u{202e}gnol'],
    ['\ud800', '\\u{d800}'],
    ['Grünlilie 🌱', 'Grünlilie 🌱'],
  ])('never moves the cursor: %j', (text, safe) => {
    expect(printable(text)).toBe(safe);
  });
});

describe('a pause', () => {
  it('ends early when somebody asks to stop', async () => {
    const asked = new AbortController();
    const pausing = pause(3_600_000, asked.signal);
    asked.abort(new Interrupted('enough'));
    await expect(pausing).rejects.toThrow(new Interrupted('enough'));
    await expect(pause(3_600_000, asked.signal)).rejects.toThrow('enough');
  });
});
