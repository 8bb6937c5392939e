import { cloudEventOf } from '../history/cloud-event.js';
import { type RecordedEvent } from '../log/event-log.js';
import { printable } from './terminal.js';

/** The most characters of an event's data that are shown. */
const SHOWN_CHARACTERS = 2_000;

/** An event's data as JSON, cut where it is very long. */
export const shownData = (data: unknown): string => {
  const text = JSON.stringify(data);
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text;
};

/** An event in one line for a person; what is not printable is escaped. */
export const eventLine = (event: RecordedEvent): string => {
  const { data, time, stream, owner, subject, actor, clientid, refused } = cloudEventOf(event);
  const what = subject === undefined ? stream : owner === undefined ? subject : `${owner} ${subject}`;
  const who = actor === undefined ? '' : `  by ${actor}${clientid === undefined ? '' : ` (${clientid})`}`;
  const problem = refused === undefined ? '' : `  CANNOT BE READ: ${refused}`;
  return printable(
    `${event.position}  ${time ?? 'at an unknown time      '}  ${what}  ${event.type} ${shownData(data)}${who}${problem}`,
  );
};
