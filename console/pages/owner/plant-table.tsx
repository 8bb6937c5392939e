/** A page of the list, searched as one types. */
import { Failure } from '../../parts/failure.js';
import { Bin } from '../../parts/icons.js';
import { Name } from '../../parts/name.js';
import { changeQuery, hrefOf, place } from '../../router.js';
import { deletePlant } from './changes.js';
import { type Plant, type PlantList } from './plant-list.js';

/** Texts are compared as people read them: without case, and however accents are composed. */
const folded = (text: string): string => text.normalize('NFKC').toLocaleLowerCase();

const matching = (plants: readonly Plant[], search: string): readonly Plant[] => {
  const wanted = folded(search.trim());
  if (wanted === '') return plants;
  return plants.filter(
    ({ id, name, tag }) =>
      folded(name).includes(wanted) || folded(tag).includes(wanted) || String(id) === wanted,
  );
};

export const PlantTable = ({
  list,
  mayWrite,
  selected,
}: {
  readonly list: PlantList;
  readonly mayWrite: boolean;
  readonly selected: string | null;
}) => {
  const plants = list.plants.value ?? list.before;
  const search = place.value.query.get('q') ?? '';
  const found = matching(plants ?? [], search);
  return (
    <section aria-label="Your plants" aria-busy={list.loading.value} class="stack">
      {list.error.value !== undefined && (
        <Failure error={list.error.value} onRetry={() => void list.load()} />
      )}
      <Search search={search} found={found.length} all={plants?.length} />
      {plants?.length === 0 && <Empty mayWrite={mayWrite} />}
      {found.length > 0 && (
        <table class="plants">
          <thead>
            <tr>
              <th scope="col" class="id">
                Id
              </th>
              <th scope="col">Name and tag</th>
              {mayWrite && (
                <th scope="col">
                  <span class="hidden">Delete</span>
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {found.map((plant) => (
              <Row key={plant.id} {...{ list, plant, mayWrite }} isSelected={String(plant.id) === selected} />
            ))}
          </tbody>
        </table>
      )}
      <Pages list={list} />
    </section>
  );
};

const Row = ({
  list,
  plant,
  mayWrite,
  isSelected,
}: {
  readonly list: PlantList;
  readonly plant: Plant;
  readonly mayWrite: boolean;
  readonly isSelected: boolean;
}) => (
  <tr class={`${isSelected ? 'selected' : ''} ${list.fresh.value.has(plant.id) ? 'fresh' : ''}`}>
    <td class="id mono">{plant.id}</td>
    <td>
      <a
        class="plant-link"
        href={hrefOf('plants', { ...Object.fromEntries(place.value.query), plant: plant.id })}
        {...(isSelected && { 'aria-current': 'true' })}
      >
        <Name text={plant.name} />
      </a>
      {plant.tag !== '' && (
        <span class="tag">
          <Name text={plant.tag} />
        </span>
      )}
    </td>
    {mayWrite && (
      <td class="act">
        <button
          type="button"
          class="icon"
          aria-label={`Delete ${plant.name}`}
          onClick={() => void deletePlant(list, plant)}
        >
          <Bin />
        </button>
      </td>
    )}
  </tr>
);

const Search = ({
  search,
  found,
  all,
}: {
  readonly search: string;
  readonly found: number;
  readonly all: number | undefined;
}) => (
  <div class="search">
    <label class="hidden" for="search">
      Search this page
    </label>
    <input
      id="search"
      type="search"
      placeholder="Search this page"
      dir="auto"
      value={search}
      onInput={(event) => {
        changeQuery({ q: event.currentTarget.value }, { replace: true });
      }}
    />
    <p class="small faint number" role="status">
      {all === undefined ? 'Loading…' : search.trim() === '' ? count(all) : `${found} of ${count(all)}`}
    </p>
  </div>
);

const count = (plants: number): string =>
  plants === 1 ? '1 plant on this page' : `${plants} plants on this page`;

const Empty = ({ mayWrite }: { readonly mayWrite: boolean }) => (
  <div class="empty">
    <p>There are no plants here.</p>
    {mayWrite && <p class="faint">Add the first one, or import a file.</p>}
  </div>
);

const Pages = ({ list }: { readonly list: PlantList }) => {
  const query = Object.fromEntries(place.value.query);
  const next = list.next.value;
  if (next === undefined && query.after === undefined) return null;
  return (
    <nav class="actions" aria-label="Pages of the list">
      {query.after !== undefined && (
        <a class="button" href={hrefOf('plants', { ...query, after: undefined })}>
          First page
        </a>
      )}
      {next !== undefined && (
        <a class="button" href={hrefOf('plants', { ...query, after: next })}>
          Next page
        </a>
      )}
    </nav>
  );
};
