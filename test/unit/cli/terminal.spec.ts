import { describe, expect, it } from '@jest/globals';
import { duration, printable, table } from '../../../src/cli/terminal.js';

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
