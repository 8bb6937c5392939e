/** Adding and deleting plants, and taking it back. */
import { newKey, send } from '../../api.js';
import { notify } from '../../parts/notices.js';
import { ApiProblem, messageOf } from '../../problem.js';
import { type Plant, type PlantList } from './plant-list.js';

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
      subject: plant.name,
      text: isGone ? 'was deleted already.' : `was not deleted. ${messageOf(error)}`,
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
      notify({ subject: plant.name, text: 'is back.' });
    } catch (error) {
      notify({ text: messageOf(error), kind: 'failed', action: { label: 'Try again', run: undo } });
    }
  };
  notify({ subject: plant.name, text: 'was deleted.', action: { label: 'Undo', run: undo } });
};
