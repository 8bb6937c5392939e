import { describe, expect, it } from '@jest/globals';
import { InvalidArgumentError } from 'commander';
import {
  nonEmptyText,
  plantId,
  pointInTime,
  portNumber,
  positiveInteger,
} from '../../../src/cli/arguments.js';

describe('an argument of a command', () => {
  it.each<[string, (value: string) => unknown, readonly string[], readonly string[]]>([
    [
      'the id of a plant',
      plantId,
      ['0', '7', '-7', '9007199254740991'],
      ['07', '1.0', '9007199254740992', ''],
    ],
    ['a positive integer', positiveInteger, ['1', '999999999'], ['0', '-1', '1e3', '1000000000', '']],
    ['a port', portNumber, ['0', '65535'], ['65536', '-1', '']],
    ['a text', nonEmptyText, ['x', ' x'], ['', ' ']],
    [
      'a point in time',
      pointInTime,
      ['0000000000000004', '2026-01-31T12:00:00Z'],
      ['yesterday', '2999-01-01T00:00:00Z', '2026-01-31', ''],
    ],
  ])('that is %s is taken in its plain form alone', (_what, parse, taken, refused) => {
    for (const value of taken) expect(() => parse(value)).not.toThrow();
    for (const value of refused) expect(() => parse(value)).toThrow(InvalidArgumentError);
  });
});
