import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { anyCharacter } from '../../support/any-character.js';
import { csvLine, parseCsv, separatorOf } from '../../../console/pages/owner/csv.js';

const records = (text: string, separator = ','): (readonly string[])[] =>
  [...parseCsv(text, separator)].map(({ fields }) => fields);

describe('comma-separated values', () => {
  it('are read as RFC 4180 says', () => {
    expect(records('a,b\r\n"c, ""d""",e\n')).toEqual([
      ['a', 'b'],
      ['c, "d"', 'e'],
    ]);
    expect(records('a,\n,b\n')).toEqual([
      ['a', ''],
      ['', 'b'],
    ]);
    expect(records('a,b')).toEqual([['a', 'b']]);
    expect(records('')).toEqual([]);
  });

  it('know their lines, empty ones and those within quotes counted', () => {
    expect([...parseCsv('a\n\n"b\nb",c\nd\n')].map(({ line }) => line)).toEqual([1, 3, 5]);
  });

  it.each([
    ['"a', 'does not end'],
    ['a\n"b"c\n', 'closing quote'],
  ])('are refused where quotes are wrong: %j', (text, what) => {
    expect(() => records(text)).toThrow(what);
  });

  it.each([
    ['name,tag,id', ','],
    ['name;tag;id', ';'],
    ['name\ttag\tid', '\t'],
    ['name', ','],
  ])('are separated by what separates the first line: %j', (text, separator) => {
    expect(separatorOf(text)).toBe(separator);
  });

  it('are read as they were written', () => {
    const row = fc.array(fc.string({ unit: anyCharacter }), { minLength: 2 });
    fc.assert(
      fc.property(fc.array(row), (rows) => {
        expect(records(rows.map(csvLine).join(''))).toEqual(rows);
      }),
    );
  });
});
