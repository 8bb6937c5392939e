import { spawnSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** True if docs/check.py can run here. */
export const PYTHON = ['python3', 'openssl'].every(
  (program) => spawnSync(program, [program === 'openssl' ? 'version' : '--version']).status === 0,
);

/** A bundle, and the arguments that it is checked with. */
export interface PythonRun {
  readonly bundle: Uint8Array;
  readonly key: string | readonly string[] | undefined;
  readonly against: string | undefined;
  readonly witnesses?: readonly string[];
  /** All witnesses, without it. */
  readonly required?: number | undefined;
  readonly owner?: string;
}

export interface PythonVerdict {
  readonly status: number;
  readonly says: string;
}

/** Runs the script as it stands, many times in one interpreter: starting that takes longer than checking. */
const DRIVER = `
import contextlib, io, json, sys
script = open(sys.argv[1]).read()
code = compile(script, sys.argv[1], 'exec')
for line in sys.stdin:
    sys.argv = ['check.py'] + json.loads(line)
    said, status = io.StringIO(), 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            exec(code, {'__name__': '__main__', '__doc__': ''})
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
            if isinstance(end.code, str): said.write(end.code)
    print(json.dumps({'status': status, 'says': said.getvalue().strip()}))
`;
import { temporaryFolder } from './temporary-folder.js';

/** Runs docs/check.py on each of these. */
export const checkByPython = (runs: readonly PythonRun[]): PythonVerdict[] => {
  const folder = temporaryFolder();
  try {
    const arguments_ = runs.map(({ bundle, key, against, owner, required, witnesses = [] }, at) => {
      const file = join(folder, `${at}.ndjson`);
      writeFileSync(file, bundle);
      if (against !== undefined) writeFileSync(`${file}.checkpoint`, against);
      return JSON.stringify([
        file,
        ...[key ?? []].flat().flatMap((one) => ['--key', one]),
        ...witnesses.flatMap((one) => ['--witness', one]),
        ...(required === undefined ? [] : ['--witnesses-required', `${required}`]),
        ...(owner === undefined ? [] : ['--owner', owner]),
        ...(against === undefined ? [] : ['--against', `${file}.checkpoint`]),
      ]);
    });
    const script = join(process.cwd(), 'docs/check.py');
    const { stdout, stderr } = spawnSync('python3', ['-c', DRIVER, script], {
      input: `${arguments_.join('\n')}\n`,
      encoding: 'utf8',
      maxBuffer: 2 ** 26,
    });
    const lines = stdout.trim().split('\n');
    if (lines.length !== runs.length) throw new Error(`the driver of check.py broke off: ${stderr}`);
    return lines.map((line) => JSON.parse(line) as PythonVerdict);
  } finally {
    rmSync(folder, { recursive: true });
  }
};

/** Asks the other checkers about everything that was tried, which takes long. */
export const ALL_CHECKED = process.env.ALL_CHECKED !== undefined;
