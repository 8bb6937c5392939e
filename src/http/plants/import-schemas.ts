import { z } from 'zod';

/** The greatest body of an import in bytes: what a client sends in a second over a slow mobile network. */
export const MAX_IMPORT_BYTES = 1024 * 1024;

/** The most lines of an import: as many as are written in some seconds, which is as long as a stop may wait. */
export const MAX_IMPORT_LINES = 10_000;

const count = (description: string) => z.int().min(0).meta({ description });

/** A line of the answer to an import: the outcome of one line of the request. */
export const ImportedLine = z
  .strictObject({
    line: z
      .int()
      .min(1)
      .meta({ description: 'Its number, from 1; empty lines are counted, and passed over.' }),
    status: z.int().meta({
      description: '201: added. 200: it was there already. Else what POST /plants would have answered.',
    }),
    outcome: z.enum(['created', 'exists', 'refused']).meta({
      description: 'exists: with the same name and tag, perhaps by an earlier try.',
    }),
    id: z.int().optional().meta({ description: 'Of the plant, where the line could be read.' }),
    position: z.string().optional().meta({ description: 'Of the event that has added it: Plants-Position.' }),
    code: z.string().optional().meta({ description: 'Of the problem, where it was refused.' }),
    detail: z.string().optional().meta({ description: 'What happened, and what to change.' }),
    errors: z
      .array(z.strictObject({ pointer: z.string(), detail: z.string() }))
      .readonly()
      .optional()
      .meta({ description: 'Every field that is not valid.' }),
  })
  .meta({ id: 'ImportedLine', description: 'What came of one line.' });

/** The last line of the answer to an import. */
export const ImportEnd = z
  .strictObject({
    done: z.boolean().meta({ description: 'Whether every line was tried.' }),
    created: count('How many plants were added.'),
    exists: count('How many were there already.'),
    refused: count('How many lines were refused.'),
    left: count('How many lines were not tried: send them again.'),
    lists: z.enum(['current', 'behind']).meta({
      description: 'current: lists contain what was added. behind: see `Plants-Lists` of POST /plants.',
    }),
    position: z
      .string()
      .optional()
      .meta({ description: 'Of the last plant that was added: Plants-Position.' }),
  })
  .meta({ id: 'ImportEnd', description: 'How the import ended. Without this line it was broken off.' });
