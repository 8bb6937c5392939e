/** The page of an owner: the plants, one of them, and what can be done. */
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { LiveBadge } from '../../parts/live-badge.js';
import { place } from '../../router.js';
import { allows, session } from '../../session.js';
import { AddForm } from './add-form.js';
import { PlantList } from './plant-list.js';
import { PlantPanel } from './plant-panel.js';
import { PlantTable } from './plant-table.js';
import { TimeTravel } from './time-travel.js';
import { Tools } from './tools.js';

/** True if there is room for the form next to the list. */
const isWide = matchMedia('(width >= 60rem)').matches;

const PlantsPage = () => {
  const { query } = place.value;
  const after = query.get('after') ?? undefined;
  const asOf = query.get('asOf') ?? undefined;
  const plant = query.get('plant');
  const token = session.value?.token;
  const shown = useRef<PlantList>(undefined);
  const list = useMemo(() => {
    const { current: last } = shown;
    const isSamePage = last?.place.after === after;
    return new PlantList({ after, asOf }, isSamePage ? (last?.plants.peek() ?? last?.before) : undefined);
  }, [after, asOf, token]);
  shown.current = list;
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
        {list.live.value && <LiveBadge live={list.live.value} />}
        <Tools list={list} mayWrite={mayWrite} />
      </div>
      {asOf !== undefined && <TimeTravel asOf={asOf} />}
      <div class="split">
        <PlantTable list={list} mayWrite={mayWrite} selected={plant} />
        <aside aria-label="One plant">
          {plant !== null && <PlantPanel key={plant} list={list} id={plant} />}
          {/* Hidden in the past, and not gone: what was typed stays. */}
          {allows('plants:write') && (
            <details class="card" open={isWide} hidden={!mayWrite}>
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
