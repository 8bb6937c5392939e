/** Actions on the whole list. */
import { type ComponentType } from 'preact';
import { useState } from 'preact/hooks';
import { Dialog } from '../../parts/dialog.js';
import { Failure } from '../../parts/failure.js';
import { Unreachable } from '../../problem.js';
import { changeQuery, place } from '../../router.js';
import { ExportDialog } from './export-dialog.js';
import { ImportDialog } from './import-dialog.js';
import { type PlantList } from './plant-list.js';
import { enterPast } from './time-travel.js';

type Open = 'import' | 'export' | undefined;

export const Tools = ({ list, mayWrite }: { readonly list: PlantList; readonly mayWrite: boolean }) => {
  const [open, setOpen] = useState<Open>();
  const asOf = place.value.query.get('asOf') ?? undefined;
  const close = (): void => {
    setOpen(undefined);
  };
  return (
    <div class="actions">
      {mayWrite && (
        <button
          type="button"
          onClick={() => {
            setOpen('import');
          }}
        >
          Import
        </button>
      )}
      <button
        type="button"
        onClick={() => {
          setOpen('export');
        }}
      >
        Export
      </button>
      {asOf === undefined && (
        <>
          <button type="button" onClick={enterPast}>
            As it was
          </button>
          <Prove list={list} />
        </>
      )}
      <Jump />
      {open === 'import' && <ImportDialog list={list} onClose={close} />}
      {open === 'export' && <ExportDialog asOf={asOf} onClose={close} />}
    </div>
  );
};

/** Proves the page; what verifies proofs is loaded then. */
const Prove = ({ list }: { readonly list: PlantList }) => {
  const [Proving, setProving] = useState<ComponentType<{ list: PlantList; onClose: () => void }>>();
  const [unloaded, setUnloaded] = useState(false);
  const load = (): void => {
    setUnloaded(false);
    import('./prove-dialog.js').then(
      ({ ProveDialog }) => {
        setProving(() => ProveDialog);
      },
      () => {
        setUnloaded(true);
      },
    );
  };
  const close = (): void => {
    setProving(undefined);
    setUnloaded(false);
  };
  return (
    <>
      <button type="button" onClick={load}>
        Prove
      </button>
      {Proving && <Proving list={list} onClose={close} />}
      {unloaded && (
        <Dialog title="Prove this list" onClose={close}>
          <Failure error={new Unreachable()} onRetry={load} />
        </Dialog>
      )}
    </>
  );
};

/** Goes to a plant by its id, wherever it is in the list. */
const Jump = () => {
  const [id, setId] = useState('');
  const [fault, setFault] = useState(false);
  return (
    <form
      class="jump"
      role="search"
      aria-label="One plant"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        const isId = /^\s*-?\d{1,16}\s*$/.test(id);
        setFault(!isId);
        if (isId) changeQuery({ plant: String(Number(id)) });
      }}
    >
      <label class="hidden" for="jump">
        Go to the plant with the id
      </label>
      <input
        id="jump"
        type="text"
        inputMode="numeric"
        placeholder="Id"
        value={id}
        aria-invalid={fault ? 'true' : 'false'}
        onInput={(event) => {
          setId(event.currentTarget.value);
        }}
      />
      <button type="submit">Go to id</button>
    </form>
  );
};
