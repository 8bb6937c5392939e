import { type Command } from 'commander';
import { alterForDemo } from '../../log/sqlite/altered-for-demo.js';
import { Demo } from '../demo.js';
import { DEMO_OWNERS } from '../demo-plants.js';
import { EXITS } from '../exit-status.js';
import { openBrowser } from '../open-browser.js';
import { version } from '../package.js';
import { printable } from '../terminal.js';

/** Defines `plants demo`. */
export const define = (command: Command): void => {
  command
    .option('--no-open', 'print the link, and open nothing')
    .option('--json', 'print objects: {url, link, folder}, then {altered} and {alarm}')
    .addHelpText(
      'after',
      `
It listens on this machine alone, at a free port, and keeps its data in a temporary folder, which it removes at its end.
Keys (without a terminal: lines): a alters an event behind the service's back, so that the alarm names it; o opens the
console again; q stops.
${EXITS}`,
    )
    .action(demo);
};

interface DemoOptions {
  readonly open: boolean;
  readonly json?: true;
}

const demo = async ({ open, json }: DemoOptions): Promise<void> => {
  const print = (object: Readonly<Record<string, unknown>>, text: string): void => {
    process.stdout.write(json ? `${JSON.stringify(object)}\n` : `${text}\n`);
  };
  const stopping = untilStopped();
  const running = await Demo.start(version, alterForDemo);
  try {
    const link = await running.link();
    print({ url: running.url, link, folder: running.folder }, await welcome(running, link));
    const show = async (): Promise<void> => {
      if (open && !json) await openBrowser(await running.link());
    };
    await Promise.all([show(), stopping.keys({ a: () => alter(running, print), o: show })]);
  } finally {
    stopping.release();
    await running.stop();
  }
  if (!json) process.stdout.write('Stopped, and its data is removed.\n');
  // Explicitly: what the browser keeps open does not hold this up.
  process.exit();
};

const welcome = async (running: Demo, link: string): Promise<string> => {
  const others = Object.keys(DEMO_OWNERS).slice(1);
  const links = await Promise.all(
    others.map(async (owner) => `  ${printable(owner)}\n  ${await running.link(owner)}\n`),
  );
  return `
A plant store for this demonstration listens on ${running.url}.
Its data is in ${running.folder}, and is removed when it stops.

The console, as alice, with all that a token can allow:

  ${link}

As somebody else:

${links.join('\n')}
Keys: a alters an event behind the service's back, o opens the console, q stops.
`;
};

type Print = (object: Readonly<Record<string, unknown>>, text: string) => void;

const alter = async (running: Demo, print: Print): Promise<void> => {
  const alarm = await running.alter((altered) => {
    print(
      { altered },
      `\nAltered, past the service: ${altered}.\nThe auditor compares the log with its tree…`,
    );
  });
  if (alarm === undefined) print({ altered: null }, 'It was altered already: start again for another one.');
  else print({ alarm }, `\n${printable(alarm)}\n`);
};

/** Keys of a terminal, lines of a pipe, and signals. Listens from now on, so that Ctrl-C stops a start in order, too. */
const untilStopped = () => {
  const stop = new AbortController();
  const abort = (): void => {
    stop.abort();
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, abort);
  const { stdin } = process;
  return {
    /** Resolves when it is to stop; rejects with what the work of a key has failed with. */
    keys: (work: Readonly<Record<string, () => Promise<void>>>): Promise<void> =>
      new Promise((resolve, reject) => {
        if (stdin.isTTY) stdin.setRawMode(true);
        stdin.setEncoding('utf8').on('data', (keys: string) => {
          for (const key of keys)
            if (key === 'q' || key === '\u0003') resolve();
            else work[key]?.().catch(reject);
        });
        stop.signal.addEventListener('abort', () => {
          resolve();
        });
        if (stop.signal.aborted) resolve();
      }),
    release: (): void => {
      if (stdin.isTTY) stdin.setRawMode(false);
      stdin.pause();
    },
  };
};
