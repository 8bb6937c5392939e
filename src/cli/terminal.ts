/** Prints a command's result: `value` where JSON is wanted, else `text`. */
export const print = (
  { json }: { readonly json?: boolean | undefined },
  value: unknown,
  text: string,
): void => {
  process.stdout.write(`${json ? JSON.stringify(value) : text}\n`);
};

/** A number of things, such as `1 plant` and `2 plants`. */
export const quantity = (count: number, thing: string): string =>
  `${count} ${thing}${count === 1 ? '' : 's'}`;

/** A text with control characters and invisible ones escaped, for a terminal. */
export const printable = (text: string): string =>
  text.replace(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu,
    (character) => `\\u{${Number(character.codePointAt(0)).toString(16)}}`,
  );

/** Rows of equal columns, the first of them the headings. */
export const table = (rows: readonly (readonly string[])[]): string => {
  const widthOf = (column: number): number => Math.max(...rows.map((row) => String(row[column]).length));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widthOf(column)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
};

/** Seconds in words, such as 2 h 5 min. */
export const duration = (seconds: number): string => {
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3_600) return `${Math.floor(whole / 60)} min${whole % 60 === 0 ? '' : ` ${whole % 60} s`}`;
  return `${Math.floor(whole / 3_600)} h ${Math.floor((whole % 3_600) / 60)} min`;
};

/** Starts a stopwatch: gives the seconds since then, to a tenth. */
export const stopwatch = (): (() => number) => {
  const began = performance.now();
  return () => Number(((performance.now() - began) / 1_000).toFixed(1));
};
