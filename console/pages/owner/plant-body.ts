/** A plant as it is sent to the service. */

/**
 * The body of a request to add a plant. An id that is written as a number is sent as it was typed, so that the service
 * judges what was meant and no digit is lost on the way; anything else is sent as text, for the same reason.
 */
export const bodyOf = ({
  name,
  tag,
  id,
}: {
  readonly name: string;
  readonly tag: string;
  readonly id: string;
}): string => {
  const typed = id.trim();
  const isNumber = /^-?(0|[1-9]\d*)(\.\d+)?$/.test(typed);
  const idMember = typed === '' ? '' : `,"id":${isNumber ? typed : JSON.stringify(typed)}`;
  return `{"name":${JSON.stringify(name)},"tag":${JSON.stringify(tag)}${idMember}}`;
};
