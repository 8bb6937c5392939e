/** Records a run for the metrics. Where it cannot be recorded, a warning is printed: the run itself has succeeded. */
export const recordRun = async (record: () => Promise<void>): Promise<void> => {
  try {
    await record();
  } catch (error) {
    const { code = 'failed' } = error as NodeJS.ErrnoException;
    process.stderr.write(
      `plants: DATA_DIR cannot be written (${code}), so the metrics do not show this run\n`,
    );
  }
};
