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
  /** What was drawn, each time. */
  get drawn(): string {
    return stripVTControlCharacters(this.text);
  }
}

const shown = (isTTY: boolean, quiet?: true) => {
  const screen = new Screen(isTTY);
  const stream = screen as unknown as NodeJS.WriteStream;
  return { screen, progress: quiet ? new Progress('events', stream, quiet) : new Progress('events', stream) };
};

describe('progress', () => {
  let time = 0;
  beforeEach(() => {
    time = 1_000;
    jest.spyOn(performance, 'now').mockImplementation(() => time);
  });
  afterEach(() => {
    jest.restoreAllMocks();
  });

  describe('in a file', () => {
    it('is a line every five seconds, and one at the end', () => {
      const { screen, progress } = shown(false);
      progress.show('reading', 0, 100);
      time += 4_999;
      progress.show('reading', 10, 100);
      expect(screen.text).toBe('');
      time += 1;
      progress.show('reading', 20, 100);
      expect(screen.text).toBe('reading: 20 of 100 events, 4/s, 20 s left\n');
      time += 5_000;
      progress.show('reading', 100, 100);
      progress.end();
      expect(screen.text.split('\n').slice(1)).toEqual([
        'reading: 100 of 100 events, 10/s, 0 s left',
        'reading: 100 of 100 events, 10/s, 0 s left',
        '',
      ]);
    });

    it('tells no time left where there is no total, or no rate yet', () => {
      const { screen, progress } = shown(false);
      progress.show('counting', 3, undefined);
      time += 1_000;
      progress.show('reading', 0, 100);
      time += 1_000;
      progress.end();
      expect(screen.text).toBe('counting: 3 events, 3/s\nreading: 0 of 100 events, 0/s\n');
    });

    it('is silent where nothing was begun, and after its end', () => {
      const { screen, progress } = shown(false);
      progress.end();
      expect(screen.text).toBe('');
      progress.show('reading', 1, 1);
      progress.end();
      progress.end();
      expect(screen.text.trimEnd().split('\n')).toHaveLength(1);
    });
  });

  describe('on a terminal', () => {
    it('is a bar with rate and time left, and the terminal is given back at the end', () => {
      const { screen, progress } = shown(true);
      progress.show('reading', 0, 200);
      time += 10_000;
      progress.show('reading', 50, 200);
      progress.end();
      expect(screen.drawn).toMatch(/reading .* 0% 0 of 200 events, 0\/s, .* left/);
      expect(screen.drawn).toMatch(/reading .* 25% 50 of 200 events, 5\/s, .* left\s*$/);
      expect(screen.text).toContain('\x1b[?25l');
      expect(screen.text.lastIndexOf('\x1b[?25h')).toBeGreaterThan(screen.text.lastIndexOf('\x1b[?25l'));
    });

    it('counts only, where there is no total; another phase is another bar', () => {
      const { screen, progress } = shown(true);
      progress.show('counting', 0, undefined);
      time += 1_000;
      progress.show('counting', 7, undefined);
      progress.show('comparing', 1, undefined);
      progress.end();
      expect(screen.drawn).toContain('counting  7 events, 7/s');
      expect(screen.drawn).toMatch(/comparing 1 events/);
      expect(screen.drawn).not.toMatch(/%|left/);
    });
  });

  describe('of which a share is known', () => {
    it('is a bar of that share on a terminal', () => {
      const { screen, progress } = shown(true);
      progress.showShare('rebuild', 0, 'waiting');
      time += 1_000;
      progress.showShare('rebuild', 0.259, 'building, 3 s left');
      progress.end();
      expect(screen.drawn).toMatch(/rebuild .* 0% /);
      expect(screen.drawn).toMatch(/rebuild .* 25% building, 3 s left\s*$/);
    });

    it('is a line every five seconds in a file, and one at the end', () => {
      const { screen, progress } = shown(false);
      progress.showShare('rebuild', 0, 'waiting');
      time += 5_000;
      progress.showShare('rebuild', 0.5, 'building');
      time += 1_000;
      progress.showShare('rebuild', 1, 'promoting');
      progress.end();
      expect(screen.text).toBe('rebuild: 50% building\nrebuild: 100% promoting\n');
    });
  });

  it('is nothing where it is to be quiet', () => {
    const { screen, progress } = shown(true, true);
    progress.showShare('rebuild', 0.5, 'building');
    progress.show('reading', 50, 200);
    progress.end();
    expect(screen.text).toBe('');
  });
});
