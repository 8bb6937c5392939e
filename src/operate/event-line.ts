import { cloudEventOf } from '../audit/cloud-event.js';
import { type RecordedEvent } from '../ports/event-log.js';
import { printable } from './desk.js';

/** How much of an event's data is shown, in characters: it may be anything, also very long. */
const SHOWN_CHARACTERS = 2_000;

/** An event in one line for a person; what is not printable is escaped. */
export const eventLine = (event: RecordedEvent): string => {
  const { data: shown, time, stream, owner, subject, actor, clientid, refused } = cloudEventOf(event);
  const data = JSON.stringify(shown);
  const cut = data.length > SHOWN_CHARACTERS ? `${data.slice(0, SHOWN_CHARACTERS)}…` : data;
  const what = subject === undefined ? stream : owner === undefined ? subject : `${owner} ${subject}`;
  const who = actor === undefined ? '' : `  by ${actor}${clientid === undefined ? '' : ` (${clientid})`}`;
  const problem = refused === undefined ? '' : `  CANNOT BE READ: ${refused}`;
  return printable(
    `${event.position}  ${time ?? 'at an unknown time      '}  ${what}  ${event.type} ${cut}${who}${problem}`,
  );
};
