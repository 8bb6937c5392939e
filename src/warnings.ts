/** Keeps Node from printing deprecation warnings of this code; it prints all others as before. */
export const hideWarning = (code: string): void => {
  const print = process.listeners('warning');
  process.removeAllListeners('warning');
  process.on('warning', (warning: NodeJS.ErrnoException) => {
    if (warning.code !== code) for (const listener of print) listener(warning);
  });
};
