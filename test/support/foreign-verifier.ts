import { spawnSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from './temporary-folder.js';

/** For test/foreign/verify.go, which explains each. */
export interface ForeignInput {
  readonly logKey: string;
  readonly witnesses: readonly string[];
  readonly checkpoint: string;
  readonly older?: string;
  readonly consistency?: readonly string[];
  readonly receipt?: string;
  readonly tiles?: Readonly<Record<string, string>>;
}

/**
 * Places of golang.org/x/mod, tried one after another, and never a network: Debian's package golang-golang-x-mod-dev, and
 * the modules that `go mod download` in test/foreign has brought.
 */
const SOURCES: readonly Readonly<Record<string, string>>[] = [
  { GO111MODULE: 'off', GOPATH: '/usr/share/gocode' },
  { GO111MODULE: 'on', GOPROXY: 'off', GOFLAGS: '-mod=readonly', GOTOOLCHAIN: 'local' },
];

/** The verifier of test/foreign, compiled. */
export class ForeignVerifier {
  private constructor(private readonly folder: string) {}

  /** Undefined where Go or golang.org/x/mod is not here. Throws where they are, and the program cannot be compiled. */
  static compile(): ForeignVerifier | undefined {
    const folder = temporaryFolder();
    const failures = SOURCES.map((source) => {
      const { status, stderr } = spawnSync('go', ['build', '-o', join(folder, 'verify'), '.'], {
        cwd: join(process.cwd(), 'test/foreign'),
        env: { PATH: process.env.PATH, HOME: process.env.HOME, GOCACHE: join(folder, 'cache'), ...source },
        encoding: 'utf8',
      });
      return status === 0 ? undefined : stderr;
    });
    if (failures.includes(undefined)) return new ForeignVerifier(folder);
    rmSync(folder, { recursive: true });
    const broken = failures.find((reason) => reason?.includes('verify.go') && !IS_MISSING.test(reason));
    if (broken !== undefined) throw new Error(`test/foreign cannot be compiled: ${broken}`);
    return undefined;
  }

  says(inputs: readonly ForeignInput[]): string[] {
    const { stdout, stderr, status } = spawnSync(join(this.folder, 'verify'), {
      input: inputs.map((input) => `${JSON.stringify(input)}\n`).join(''),
      encoding: 'utf8',
    });
    if (status !== 0) throw new Error(`test/foreign broke off: ${stderr}`);
    return stdout.trimEnd().split('\n');
  }

  remove(): void {
    rmSync(this.folder, { recursive: true });
  }
}

/** Go's words for a missing module. */
const IS_MISSING = /cannot find package|module lookup disabled|no required module|missing go\.sum/;
