import { describe, expect, it } from '@jest/globals';
import { nextChunk, readPlants } from '../../../console/pages/owner/import-lines.js';

const linesOf = (text: string) => readPlants(text).lines.map(({ line, json }) => [line, json]);

describe('a file of plants', () => {
  it('is NDJSON, sent as it is', () => {
    const text = '{"name":"a","tag":"","id":1}\r\n\n{"id":1e400}\nnonsense';
    expect(linesOf(text)).toEqual([
      [1, '{"name":"a","tag":"","id":1}'],
      [3, '{"id":1e400}'],
      [4, 'nonsense'],
    ]);
  });

  it('is CSV, with columns in any order', () => {
    expect(linesOf('Id;Name;Tag\n7;"a ""b""";t\n')).toEqual([[2, '{"name":"a \\"b\\"","tag":"t","id":7}']]);
  });

  it('keeps the digits of an id, and what is no number, for the service to judge', () => {
    const ids = ['9007199254740993', '-7', '007', 'seven', '', '1.5'];
    const read = linesOf(`id,name,tag\n${ids.map((id) => `${id},n,t`).join('\n')}`);
    expect(read.map(([, json]) => /"id":(.*)\}/.exec(String(json))?.[1])).toEqual([
      '9007199254740993',
      '-7',
      '"007"',
      '"seven"',
      undefined,
      '1.5',
    ]);
  });

  it.each([
    ['', 'no plants'],
    ['[{"id":1}]', 'JSON array'],
    ['name,id\na,1', 'no tag'],
    ['name,tag,id\n', 'no plants'],
  ])('is refused where it can have no plants: %j', (text, what) => {
    expect(() => readPlants(text)).toThrow(what);
  });

  it('tells the lines that cannot be sent, and sends the others', () => {
    const { lines, faults } = readPlants('name,tag,id\na,b,1\nc,d\ne,f,2\n"g,h,3\n');
    expect(lines.map(({ line }) => line)).toEqual([2, 4]);
    expect(faults.map(({ line, detail }) => [line, detail])).toEqual([
      [3, 'has 2 fields, and the first line names 3'],
      [5, 'a field that begins with a quote does not end; nothing after it was read'],
    ]);
  });
});

it('is sent in parts that one request may have', () => {
  const line = (json: string) => ({ line: 1, json, source: '' });
  expect(nextChunk(Array.from({ length: 3_000 }, () => line('x')))).toHaveLength(500);
  expect(nextChunk(Array.from({ length: 100 }, () => line('x'.repeat(20_000)))).length).toBeLessThan(10);
  expect(nextChunk([line('x'.repeat(400_000))])).toHaveLength(1);
});
