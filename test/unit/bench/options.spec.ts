import { describe, expect, it } from '@jest/globals';
import { BadUsage, readOptions } from '../../../bench/options.js';

const WORKLOADS = ['list-20', 'mix'];

describe('the command line of the benchmark', () => {
  it('is a full run of everything without options', () => {
    expect(readOptions([], WORKLOADS)).toEqual({
      help: false,
      quick: false,
      profile: false,
      only: [],
      json: undefined,
      repeats: undefined,
    });
  });

  it('takes workloads one by one and separated by commas', () => {
    expect(readOptions(['--only', 'mix', '--only=list-20,mix'], WORKLOADS).only).toEqual([
      'mix',
      'list-20',
      'mix',
    ]);
  });

  it.each([
    [['--fast']],
    [['quick']],
    [['--only', 'lists']],
    [['--repeat', '2']],
    [['--repeat', 'often', '--quick']],
    [['--json', '']],
    [['--profile', '--only', 'mix']],
  ])('refuses %j with one line', (args) => {
    expect(() => readOptions(args, WORKLOADS)).toThrow(BadUsage);
    expect(() => readOptions(args, WORKLOADS)).toThrow(/^[^\n]+$/);
  });

  it('lets a quick run have one round', () => {
    expect(readOptions(['--quick', '--repeat', '1'], WORKLOADS).repeats).toBe(1);
  });
});
