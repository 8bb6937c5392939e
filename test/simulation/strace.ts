import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { posix } from 'node:path';
import { type Step } from './recording.js';

/**
 * Calls that change files or make them durable, or that may answer a request. Not every processor has all of them: arm64
 * has only those whose names end in "at".
 */
const CALLS = [
  ...['open', 'openat', 'creat', 'mkdir', 'mkdirat'],
  ...['write', 'writev', 'pwrite64', 'pwritev', 'pwritev2', 'ftruncate', 'truncate', 'fallocate', 'mmap'],
  ...['fsync', 'fdatasync', 'sync_file_range', 'msync', 'sync', 'syncfs'],
  ...[
    'rename',
    'renameat',
    'renameat2',
    'link',
    'linkat',
    'unlink',
    'unlinkat',
    'rmdir',
    'symlink',
    'symlinkat',
  ],
  ...['sendfile', 'copy_file_range', 'splice', 'sendto', 'sendmsg', 'io_uring_setup'],
];

/** Longer than anything that is written at once, in bytes. */
const LONGEST_WRITE = 16_000_000;

const MISSING = 'there is no strace on the PATH (Debian: apt-get install strace)';

/** Why no trace can be recorded on this machine, in one line; undefined where one can. Installs Debian's package. */
export const whyNoStrace = (): string | undefined => {
  const fault = faultOfStrace();
  if (fault !== MISSING || process.getuid?.() !== 0) return fault;
  try {
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
    execFileSync('apt-get', ['update', '-qq'], { env, stdio: 'ignore' });
    execFileSync('apt-get', ['install', '-qq', '--no-install-recommends', 'strace'], {
      env,
      stdio: 'ignore',
    });
  } catch {
    return fault;
  }
  return faultOfStrace();
};

const faultOfStrace = (): string | undefined => {
  if (process.platform !== 'linux') return 'strace is there for Linux alone';
  try {
    execFileSync('strace', ['-f', '--seccomp-bpf', '-e', 'trace=openat', '-o', '/dev/null', 'true'], {
      stdio: 'pipe',
    });
    return undefined;
  } catch (error) {
    const { code, stderr } = error as NodeJS.ErrnoException & { stderr?: Buffer };
    if (code === 'ENOENT') return MISSING;
    return `strace cannot trace here: ${String(stderr).split('\n', 1)[0] ?? ''}`;
  }
};

/** A process was killed while it changed a file: another run may have better luck. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';
}

/** Runs a command, and records what it and its children do into `trace`. Throws what it says where it fails. */
export const traced = async (
  trace: string,
  command: readonly string[],
  env: Readonly<Record<string, string>>,
  syncMs: number,
): Promise<void> => {
  const child = spawn(
    'strace',
    [
      ...['-f', '--seccomp-bpf', '-y', '-xx', '-s', String(LONGEST_WRITE)],
      ...[
        '-e',
        'signal=none',
        '-e',
        `trace=${CALLS.map((call) => `?${call}`).join(',')}`,
        '-o',
        trace,
        ...(syncMs > 0 ? ['-e', `inject=fdatasync:delay_enter=${syncMs * 1_000}`] : []),
        ...command,
      ],
    ],
    { env, stdio: ['ignore', 'ignore', 'pipe'] },
  );
  const [said] = await Promise.all([text(child.stderr), once(child, 'close')]);
  if (child.exitCode !== 0) throw new Error(`the recorded run ended with ${String(child.exitCode)}: ${said}`);
};

/** `pid call(arguments) = result`, or the first or the second half of it. */
const LINE = /^(\d+) +(?:(\w+)\((.*)|<\.\.\. (\w+) resumed>(.*))$/s;
const RESULT = /^(.*)\) += (-?\d+|0x[0-9a-f]+)/s;

/** The steps of a trace in a folder, in the order in which they ended. */
export const stepsOf = async (trace: string, folder: string): Promise<Step[]> => {
  const steps: Step[] = [];
  const calls = new Calls(folder);
  const begun = new Map<string, { readonly line: number; readonly call: string; readonly text: string }>();
  let line = 0;
  for await (const whole of createInterface({ input: createReadStream(trace, 'latin1') })) {
    line += 1;
    const [, thread = '', call, head = '', resumed, tail = ''] = LINE.exec(whole) ?? [];
    if (call !== undefined && head.endsWith('<unfinished ...>')) {
      const text = head.slice(0, -' <unfinished ...>'.length);
      begun.set(thread, { line, call, text });
      const answer = calls.answerOf(call, text, line);
      if (answer) steps.push(answer);
      continue;
    }
    const name = call ?? resumed;
    if (name === undefined) continue; // a process has ended
    const start = call === undefined ? begun.get(thread) : { line, text: '' };
    begun.delete(thread);
    const [, text, result] = RESULT.exec(`${start?.text ?? ''}${call === undefined ? tail : head}`) ?? [];
    if (!start || text === undefined || Number(result) < 0) continue;
    const step =
      (call === undefined ? undefined : calls.answerOf(name, text, line)) ??
      calls.stepOf(name, text, { begun: start.line, ended: line });
    if (step) steps.push(step);
  }
  for (const { line: at, call, text } of begun.values())
    if ((calls.stepOf(call, text, { begun: at, ended: line })?.kind ?? 'sync') !== 'sync')
      throw new Interrupted(
        `the call in line ${at} of the trace was interrupted: nobody knows what it has done`,
      );
  return steps;
};

/** `12<path>` or `"text"`, each in hexadecimal. */
const ARGUMENT = /"((?:\\x[0-9a-f]{2})*)"|(?:\d+|AT_FDCWD)<((?:\\x[0-9a-f]{2})*)>(\(deleted\))?/g;

const bytesOf = (hexadecimal: string): Buffer => Buffer.from(hexadecimal.replaceAll('\\x', ''), 'hex');

const ANSWER = /^HTTP\/1\.1 2\d\d .*?\r\nx-request-id: ([\w-]+)\r\n/is;

class Calls {
  constructor(private readonly folder: string) {}

  /** The answer that a call sends, if it does. */
  answerOf(call: string, text: string, line: number): Step | undefined {
    if (!/^(write|writev|sendto|sendmsg)$/.test(call) || !text.includes('\\x48\\x54\\x54\\x50'))
      return undefined;
    const sent = [...text.matchAll(ARGUMENT)].map(([, quoted = '']) => bytesOf(quoted).toString('latin1'));
    const id = ANSWER.exec(sent.join(''))?.[1];
    return id === undefined ? undefined : { kind: 'answer', id, begun: line, ended: line };
  }

  /** Returns the effect of a call that has ended well on the folder, if any. Throws for calls that it has no model of. */
  stepOf(call: string, text: string, when: Pick<Step, 'begun' | 'ended'>): Step | undefined {
    const named = [...text.matchAll(ARGUMENT)];
    if (named.some(([, , , deleted]) => deleted !== undefined)) return undefined; // nobody can open it again
    const paths = named.map(([, quoted, open]) =>
      this.#inFolder(bytesOf(quoted ?? open ?? '').toString('utf8')),
    );
    // All paths are absolute, so that the folder before the path of a call that ends in "at" says nothing.
    const quoted = paths.filter((_, index) => named[index]?.[1] !== undefined);
    const naming = this.#namingOf(call.replace(/(at|at2)$/, ''), text, quoted, when);
    if (naming !== 'none') return naming;
    const [path] = paths;
    switch (call) {
      case 'write':
      case 'pwrite64': {
        if (path === undefined) return undefined;
        const bytes = bytesOf(named[1]?.[1] ?? '');
        const at = call === 'write' ? 'end' : Number(/, (\d+)$/.exec(text)?.[1]);
        return { kind: 'write', path, at, bytes, ...when };
      }
      case 'ftruncate':
        return path === undefined
          ? undefined
          : { kind: 'truncate', path, size: Number(/, (\d+)$/.exec(text)?.[1]), ...when };
      case 'fsync':
      case 'fdatasync':
        return path === undefined ? undefined : { kind: 'sync', path, ...when };
      case 'mmap':
        // SQLite makes its index of the write-ahead log again after a crash: its content is never trusted.
        if (path === undefined || path.endsWith('-shm') || !text.includes('MAP_SHARED')) return undefined;
        throw unknown(call, path, when);
      default: {
        const touched = paths.find((one) => one !== undefined);
        if (touched !== undefined) throw unknown(call, touched, when);
        return undefined;
      }
    }
  }

  /** Returns the change of names by a call; 'none' for other calls. */
  #namingOf(
    call: string,
    text: string,
    [path, second]: readonly (string | undefined)[],
    when: Pick<Step, 'begun' | 'ended'>,
  ): Step | undefined | 'none' {
    switch (call) {
      case 'open':
        return this.#opened(text, path, when);
      case 'mkdir':
        return path === undefined ? undefined : { kind: 'make', path, folder: true, ...when };
      case 'rename':
      case 'link':
        if (path !== undefined && second !== undefined)
          return { kind: call, from: path, path: second, ...when };
        if (path !== undefined || second !== undefined) throw unknown(call, path ?? second ?? '', when);
        return undefined;
      case 'unlink':
        if (path !== undefined && text.includes('AT_REMOVEDIR')) throw unknown(call, path, when);
        return path === undefined ? undefined : { kind: call, path, ...when };
      default:
        return 'none';
    }
  }

  #opened(text: string, path: string | undefined, when: Pick<Step, 'begun' | 'ended'>): Step | undefined {
    if (path === undefined) return undefined;
    if (text.includes('O_TRUNC') && !text.includes('O_EXCL'))
      throw new Error(`line ${when.ended} of the trace truncates ${path} by opening it`);
    return text.includes('O_CREAT') ? { kind: 'make', path, folder: false, ...when } : undefined;
  }

  #inFolder(path: string): string | undefined {
    const relative = posix.relative(this.folder, path);
    return relative.startsWith('..') || !path.startsWith('/') ? undefined : relative === '' ? '.' : relative;
  }
}

const unknown = (call: string, path: string, { ended }: Pick<Step, 'ended'>): Error =>
  new Error(`line ${ended} of the trace has a call without a model: ${call} of ${path}`);
