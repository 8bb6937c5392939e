import { describe, expect, it } from '@jest/globals';
import { CommanderError } from 'commander';
import { commandLine, type Options } from '../../../bench/options.js';

const optionsOf = (...args: string[]): Options =>
  commandLine(['list-20', 'mix'], {})
    .configureOutput({ writeErr: () => undefined })
    .exitOverride()
    .parse(args, { from: 'user' })
    .opts<Options>();

describe('the command line of the benchmark', () => {
  it('is a full run of everything without options', () => {
    expect(optionsOf()).toEqual({});
  });

  it('takes workloads one by one and separated by commas', () => {
    expect(optionsOf('--only', 'mix', '--only=list-20,mix').only).toEqual(['mix', 'list-20', 'mix']);
  });

  it.each([[['--fast']], [['quick']], [['--only', 'lists']], [['--repeat', '0']], [['--repeat', 'often']]])(
    'refuses %j',
    (args) => {
      expect(() => optionsOf(...args)).toThrow(CommanderError);
    },
  );
});
