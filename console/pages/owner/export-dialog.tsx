/** Saving the whole list. */
import { useRef, useState } from 'preact/hooks';
import { Dialog } from '../../parts/dialog.js';
import { Failure } from '../../parts/failure.js';
import { notify } from '../../parts/notices.js';
import { saveFile } from '../../parts/save.js';
import { isAborted } from '../../problem.js';
import { exportTexts, type Format, FORMATS } from './export.js';

export const ExportDialog = ({
  asOf,
  onClose,
}: {
  readonly asOf: string | undefined;
  readonly onClose: () => void;
}) => {
  const [format, setFormat] = useState<Format>('csv');
  const [plants, setPlants] = useState<number>();
  const [error, setError] = useState<unknown>();
  const running = useRef<AbortController>(undefined);
  const close = (): void => {
    running.current?.abort();
    onClose();
  };
  const save = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    running.current = new AbortController();
    setError(undefined);
    setPlants(0);
    let count = 0;
    const told = (so: number): void => {
      count = so;
      setPlants(so);
    };
    try {
      const texts = await exportTexts(format, asOf, told, running.current.signal);
      saveFile(`plants.${format}`, texts.join(''), FORMATS[format].type);
      notify({ text: `${count.toLocaleString()} plants were exported.` });
      onClose();
    } catch (failure) {
      setPlants(undefined);
      if (!isAborted(failure)) setError(failure);
    }
  };
  return (
    <Dialog title={asOf === undefined ? 'Export your plants' : 'Export the list as it was'} onClose={close}>
      <form onSubmit={(event) => void save(event)}>
        <Formats chosen={format} onChoose={setFormat} disabled={plants !== undefined} />
        <p class="hint">
          The file is made here, with every name as it is. It can be imported again. A spreadsheet may take a
          name that begins with = for a formula: import the columns as text there.
        </p>
        {error !== undefined && <Failure error={error} />}
        <p role="status" class="number">
          {plants !== undefined && `${plants.toLocaleString()} plants…`}
        </p>
        <div class="actions">
          <button type="submit" class="primary" disabled={plants !== undefined}>
            Save
          </button>
          <button type="button" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
};

const Formats = ({
  chosen,
  onChoose,
  disabled,
}: {
  readonly chosen: Format;
  readonly onChoose: (format: Format) => void;
  readonly disabled: boolean;
}) => (
  <fieldset disabled={disabled}>
    <legend>Format</legend>
    {(Object.keys(FORMATS) as Format[]).map((one) => (
      <label key={one} class="check">
        <input
          type="radio"
          name="format"
          checked={one === chosen}
          onChange={() => {
            onChoose(one);
          }}
        />{' '}
        {FORMATS[one].title}
      </label>
    ))}
  </fieldset>
);
