/** Processes, generations, trees and witnesses, as they stand. */
import { Name } from '../../parts/name.js';
import { Time } from '../../parts/time.js';
import { CompareNow } from './compare.js';
import { counted, number } from './figures.js';
import { Ago, Table } from './parts.js';
import { type ProcessReport, type SystemStatus } from './status.js';

interface Shown {
  readonly status: SystemStatus;
  readonly now: number;
}

/** Partitions of a generation (docs/architecture.md). */
const PARTITIONS = 64;

const stateText = (state: string): string => state.replace('_', ' ');

/** A state in its colour. */
const State = ({ state, good }: { readonly state: string; readonly good: boolean }) => (
  <span class={`state-of ${good ? '' : 'bad'}`}>{stateText(state)}</span>
);

const GOOD: ReadonlySet<string> = new Set([
  'starting',
  'catching_up',
  'live',
  'standby',
  'waiting',
  'cosigns',
]);

export const Processes = ({ status: { processes, leaseHolder }, now }: Shown) => (
  <Table
    caption="Processes"
    columns={['Process', 'Roles', 'Version', 'Address', 'Up for', 'Projector', 'Auditor']}
  >
    {processes.map(({ process, host, pid, roles, version, address, since, projector, auditor }) => (
      <tr key={process}>
        <th scope="row" class="mono">
          {host}/{pid}
        </th>
        <td>{roles.join(', ')}</td>
        <td class="number">{version}</td>
        <td class="mono">{address}</td>
        <td>
          <Ago at={since} now={now} suffix="" />
        </td>
        <td>
          {projector ? (
            <>
              <State state={projector.state} good={GOOD.has(projector.state)} />
              {process === leaseHolder && <span class="faint small"> has the lease</span>}
            </>
          ) : (
            '–'
          )}
        </td>
        <td>{auditor ? <State state={auditor.state} good={GOOD.has(auditor.state)} /> : '–'}</td>
      </tr>
    ))}
  </Table>
);

export const Generations = ({ status: { generations, head } }: Pick<Shown, 'status'>) => (
  <Table
    caption={`Generations of the lists; the log ends at ${head || 'its start'}`}
    columns={['Generation', 'Lists', 'Behind', 'Up to position']}
  >
    {generations.map(({ generation, active, behind, slowest, problem }) => (
      <tr key={generation}>
        <th scope="row" class="number">
          {generation}
        </th>
        <td>{active ? <State state="answered from it" good /> : 'not answered'}</td>
        <td class="number">
          {problem === null ? `${behind} of ${PARTITIONS} partitions` : <Name text={problem} />}
        </td>
        <td class="mono">{slowest || 'start'}</td>
      </tr>
    ))}
  </Table>
);

/** The last comparison, and the next one. */
export const Compared = ({ status: { processes }, now }: Shown) => {
  const [last] = processes
    .flatMap(({ verified }) => (verified ? [verified] : []))
    .sort((one, other) => (one.at < other.at ? 1 : -1));
  return (
    <section class="card">
      <h2>Lists and log compared</h2>
      <p>
        {last ? (
          <>
            <State
              state={last.differing === 0 ? 'they agree' : `${counted(last.differing, 'plant')} differed`}
              good={last.differing === 0}
            />
            , compared <Ago at={last.at} now={now} />, <Time at={last.at} />
          </>
        ) : (
          'They were not compared yet, as far as the processes know.'
        )}
      </p>
      <p class="hint">A rebuild compares before it is promoted.</p>
      <CompareNow />
    </section>
  );
};

interface AuditorRow extends NonNullable<ProcessReport['auditor']> {
  readonly process: string;
  readonly name: string;
}

export const Trees = ({ status: { processes }, now }: Shown) => {
  const auditors = processes.flatMap(({ process, host, pid, auditor }): AuditorRow[] =>
    auditor ? [{ process, name: `${host}/${pid}`, ...auditor }] : [],
  );
  if (auditors.length === 0) return <p class="card">No process is an auditor: nothing is signed.</p>;
  return (
    <>
      <Table
        caption="Trees"
        columns={['Auditor', 'State', 'Events', 'Last checkpoint', 'Log re-read', 'Key']}
      >
        {auditors.map((auditor) => (
          <Tree key={auditor.process} auditor={auditor} now={now} />
        ))}
      </Table>
      <Witnesses auditors={auditors} now={now} />
    </>
  );
};

const Tree = ({
  auditor: { name, state, alarm, size, checkpoint, recheckedAt, rechecking, signing },
  now,
}: {
  readonly auditor: AuditorRow;
  readonly now: number;
}) => (
  <tr>
    <th scope="row" class="mono">
      {name}
    </th>
    <td>
      <State state={state} good={GOOD.has(state) && !alarm} />
      {alarm && (
        <div class="small">
          {alarm.kind}, <Time at={alarm.raisedAt} />
        </div>
      )}
    </td>
    <td class="number">{number(size)}</td>
    <td class="number">
      {checkpoint ? (
        <>
          of {counted(checkpoint.size, 'event')}, <Ago at={checkpoint.signedAt} now={now} />
        </>
      ) : (
        'none yet'
      )}
    </td>
    <td class="number">
      {recheckedAt === undefined ? 'not yet' : <Ago at={recheckedAt} now={now} />}
      {rechecking && `; now ${counted(rechecking.events, 'event')} read`}
    </td>
    <td class="mono">{signing ? <Name text={signing.key} /> : '–'}</td>
  </tr>
);

const Witnesses = ({ auditors, now }: { readonly auditors: readonly AuditorRow[]; readonly now: number }) => {
  const rows = auditors.flatMap(({ process, name, witnessing }) =>
    (witnessing?.witnesses ?? []).map((one) => ({ key: `${process} ${one.witness}`, name, ...one })),
  );
  if (rows.length === 0) return null;
  return (
    <Table caption="Witnesses" columns={['Witness', 'State', 'Cosigned', 'Of the auditor']}>
      {rows.map(({ key, name, witness, state, size, at, reason }) => (
        <tr key={key}>
          <th scope="row" class="mono">
            <Name text={witness} />
          </th>
          <td>
            <State state={state} good={GOOD.has(state)} /> {reason !== undefined && <Name text={reason} />}
          </td>
          <td class="number">
            {size === undefined ? 'nothing yet' : counted(size, 'event')}
            {at !== undefined && (
              <>
                , <Ago at={at} now={now} />
              </>
            )}
          </td>
          <td class="mono">{name}</td>
        </tr>
      ))}
    </Table>
  );
};
