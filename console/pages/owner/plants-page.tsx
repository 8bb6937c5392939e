/** The page of an owner: the plants, one of them, and what can be done. */
import { useEffect, useMemo } from 'preact/hooks';
import { place } from '../../router.js';
import { allows, session } from '../../session.js';
import { AddForm } from './add-form.js';
import { PlantList } from './plant-list.js';
import { PlantPanel } from './plant-panel.js';
import { LiveBadge, PlantTable } from './plant-table.js';
import { Tools } from './tools.js';

/** Whether there is room for the form beside the list. */
const isWide = matchMedia('(width >= 60rem)').matches;

const PlantsPage = () => {
  const { query } = place.value;
  const after = query.get('after') ?? undefined;
  const asOf = query.get('asOf') ?? undefined;
  const plant = query.get('plant');
  const token = session.value?.token;
  const list = useMemo(() => new PlantList({ after, asOf }), [after, asOf, token]);
  useEffect(() => {
    list.open();
    return () => {
      list.close();
    };
  }, [list]);
  const mayWrite = allows('plants:write') && asOf === undefined;
  return (
    <>
      <div class="page-head">
        <h1>Plants</h1>
        <LiveBadge list={list} />
        <Tools />
      </div>
      <div class="split">
        <PlantTable list={list} mayWrite={mayWrite} selected={plant} />
        <aside aria-label="One plant">
          {plant !== null && <PlantPanel key={plant} list={list} id={plant} />}
          {mayWrite && (
            <details class="card" open={isWide}>
              <summary>
                <h2>Add a plant</h2>
              </summary>
              <AddForm list={list} />
            </details>
          )}
        </aside>
      </div>
    </>
  );
};

export default PlantsPage;
