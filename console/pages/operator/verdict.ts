/** Is all well? The answer, and what to do where it is no. */
import { counted } from './figures.js';
import { type SystemStatus } from './status.js';

/** Something that is wrong. */
export interface Finding {
  /** As the service says it. */
  readonly text: string;
  readonly advice?: string;
  /** To be run where the stores are reached. */
  readonly command?: string;
}

export interface Verdict {
  readonly level: 'well' | 'warned' | 'wrong' | 'unknown';
  readonly headline: string;
  readonly findings: readonly Finding[];
}

/** Advice on problems, by the words of the service (src/operations/status.ts). The first that fits is given. */
const ADVICE: readonly (readonly [problem: RegExp, advice: string, command?: string])[] = [
  [
    /^ALARM /,
    'Stop the service and copy its files before anything is changed: they are the evidence. docs/audit.md, "When an alarm stands", leads on from there. Lists and writes go on until then, and nothing is signed. Once the log is as it was signed:',
    "npx plants audit-lift --reason 'restored from a backup'",
  ],
  [
    /^nothing projects/,
    'Start a process that projects. Until then plants are taken, and lists fall behind.',
    'ROLES=projector npx plants serve',
  ],
  [/^no list is answered/, 'A projector builds them by itself: its progress is in the table of generations.'],
  [
    /cannot write the event log/,
    'Make room on its disk, or mend what the reason names. Writes are refused until then, and lists are answered.',
  ],
  [/^an erasure is failing/, 'Mend what the reason names: it is tried again by itself.'],
  [
    /^the rebuild is failing|^generations of the lists cannot be looked after/,
    'Mend what the reason names, or cancel the rebuild if there is one.',
  ],
  [
    /the lists contain (?:an event at|events up to) /,
    'They are made again from the log by themselves. If no one restored the log, stop the service and keep copies of both stores first: docs/runbook.md, section 3.',
  ],
  [
    / is disconnected: /,
    'Look at the store and at the network to it. It goes on by itself once both are back.',
  ],
  [
    /^the auditor .* is blocked/,
    'A newer version has probably written that event: upgrade the auditor. Lists and writes go on.',
  ],
  [/^the lists of \d+ owners? are not answered/, 'See "Events that cannot be read" below.'],
  [
    /^the lists are not the fold of the log/,
    'Rebuild the lists. To see which plants differ:',
    'npx plants verify',
  ],
  [/^generation \d+ cannot be read/, 'Lists are answered from another one. Start another rebuild.'],
  [
    /^the witness /,
    'Ask the operator of the witness for both checkpoints before anything else: docs/witnesses.md.',
  ],
];

/** True for the alarm of an auditor. */
export const isAlarm = (problem: string): boolean => problem.startsWith('ALARM ');

const findingOf = (text: string): Finding => {
  const [, advice = 'docs/operating.md and docs/runbook.md say what to do when something fails.', command] =
    ADVICE.find(([problem]) => problem.test(text)) ?? [];
  return { text, advice, ...(command !== undefined && { command }) };
};

/**
 * The verdict on a status. `isCurrent` says whether it is known to hold now; `trouble` says why no newer one comes, if
 * that is known. A status of before is never called well.
 */
export const verdictOf = (
  status: SystemStatus | undefined,
  isCurrent: boolean,
  trouble: string | undefined,
): Verdict => {
  if (!status && trouble === undefined) return { level: 'unknown', headline: 'Looking…', findings: [] };
  if (!status || !isCurrent || trouble !== undefined)
    return {
      level: 'unknown',
      headline: 'Not known at present',
      findings: [
        {
          text: trouble ?? 'No status comes any more.',
          advice: status
            ? 'What is below is the last that was known. It is asked for again by itself.'
            : 'It is asked for again by itself.',
        },
      ],
    };
  const { problems, warnings, processes } = status;
  const findings = problems.map(findingOf);
  if (processes.some(({ auditor }) => auditor?.alarm))
    return { level: 'wrong', headline: 'Alarm: the log is not what was signed', findings };
  if (problems.length > 0) return { level: 'wrong', headline: counted(problems.length, 'problem'), findings };
  return warnings.length > 0
    ? {
        level: 'warned',
        headline: `All is well, with ${counted(warnings.length, 'thing')} to know`,
        findings,
      }
    : { level: 'well', headline: 'All is well', findings };
};
