/** The whole list as a file. */
import { nextPage, send } from '../../api.js';
import { csvHead, csvLine } from './csv.js';
import { type Plant } from './plant-list.js';

/** Formats of a file, which an import takes as well. */
export const FORMATS = {
  csv: {
    title: 'CSV, for spreadsheets',
    type: 'text/csv',
    head: csvHead(['name', 'tag', 'id']),
    line: ({ name, tag, id }: Plant): string => csvLine([name, tag, String(id)]),
  },
  ndjson: {
    title: 'NDJSON, one JSON object in each line',
    type: 'application/x-ndjson',
    head: '',
    line: ({ name, tag, id }: Plant): string => `${JSON.stringify({ name, tag, id })}\n`,
  },
} as const;

export type Format = keyof typeof FORMATS;

/**
 * Reads the whole list, as it is or as it was, and gives the texts of a file of it. Calls `onProgress` with the number of
 * plants so far. Throws as `send` does.
 */
export const exportTexts = async (
  format: Format,
  asOf: string | undefined,
  onProgress: (plants: number) => void,
  signal: AbortSignal,
): Promise<string[]> => {
  const { head, line } = FORMATS[format];
  const texts: string[] = [head];
  let plants = 0;
  for (let after: string | undefined = ''; after !== undefined;) {
    const response: Response = await send('plants', {
      query: { view: 'full', limit: 100, after, asOf },
      signal,
    });
    const page = (await response.json()) as Plant[];
    texts.push(page.map(line).join(''));
    plants += page.length;
    onProgress(plants);
    after = nextPage(response)?.get('after') ?? undefined;
  }
  return texts;
};
