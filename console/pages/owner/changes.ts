/** Adding and deleting plants, and taking it back. */
import { newKey, send } from '../../api.js';
import { notify } from '../../parts/notices.js';
import { ApiProblem, messageOf } from '../../problem.js';
import { type Plant, type PlantList } from './plant-list.js';

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

/** Adds a plant; with the same key it is added once, however often it is sent. Throws as `send` does. */
export const addPlant = async (list: PlantList, body: string, idempotencyKey: string): Promise<Plant> => {
  const response = await send('plants', { method: 'POST', body, idempotencyKey });
  const plant = JSON.parse(body) as Plant;
  list.apply({ type: 'added', plant, position: response.headers.get('plants-position') ?? '' });
  return plant;
};

/** Deletes a plant, and offers to add it again. Never rejects: says what failed. */
export const deletePlant = async (list: PlantList, plant: Plant): Promise<void> => {
  try {
    const response = await send(`plants/${plant.id}`, { method: 'DELETE', idempotencyKey: newKey() });
    list.apply({ type: 'deleted', id: plant.id, position: response.headers.get('plants-position') ?? '' });
  } catch (error) {
    const isGone = error instanceof ApiProblem && error.code === 'plant_not_found';
    notify({
      text: isGone ? `${plant.name} was deleted already.` : messageOf(error),
      kind: isGone ? 'done' : 'failed',
    });
    if (isGone) void list.load();
    return;
  }
  const key = newKey();
  const body = JSON.stringify({ name: plant.name, tag: plant.tag, id: plant.id });
  const undo = async (): Promise<void> => {
    try {
      await addPlant(list, body, key);
      notify({ text: `${plant.name} is back.` });
    } catch (error) {
      notify({ text: messageOf(error), kind: 'failed', action: { label: 'Try again', run: undo } });
    }
  };
  notify({ text: `${plant.name} was deleted.`, action: { label: 'Undo', run: undo } });
};
