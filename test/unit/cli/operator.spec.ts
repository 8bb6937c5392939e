import { afterEach, describe, expect, it } from '@jest/globals';
import { operatorHere } from '../../../src/cli/operator.js';

describe('who types a command', () => {
  const getuid = process.getuid;
  afterEach(() => {
    Object.defineProperty(process, 'getuid', { value: getuid, configurable: true });
  });
  const nameless = (): never => {
    throw new Error('ENOENT: uv_os_get_passwd');
  };
  const numbered = (uid: (() => number) | undefined): void => {
    Object.defineProperty(process, 'getuid', { value: uid, configurable: true });
  };

  it('is known by name, and each command by an id of its own', () => {
    const first = operatorHere(() => 'olga');
    expect(first.actor).toEqual({ sub: 'cli:olga' });
    expect(operatorHere(() => 'olga').correlationId).not.toBe(first.correlationId);
  });

  it('is known by number in a container, where users have no names', () => {
    numbered(() => 1_000_620_000);
    expect(operatorHere(nameless).actor).toEqual({ sub: 'cli:user 1000620000' });
  });

  it('is a user where there are no numbers either', () => {
    numbered(undefined);
    expect(operatorHere(nameless).actor).toEqual({ sub: 'cli:user' });
  });
});
