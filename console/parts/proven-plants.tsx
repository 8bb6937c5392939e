/** The plants of a proven list. */
import { isObject } from '../../src/transparency/json.js';
import { type ListedPlant, type ProvenList } from '../../src/transparency/list-proof.js';
import { Name } from './name.js';

/** The content of a list proof in a sentence. */
export const listSentence = ({ owner, after, isLast, plants }: ProvenList) => (
  <>
    {countOf(plants)} of <Name text={owner} />
    {after !== undefined && ` after the id ${after}`} {plants.length === 1 ? 'was' : 'were'} there,{' '}
    {isLast ? 'and no others.' : 'none is left out between them, and more follow.'}
  </>
);

const countOf = ({ length }: ProvenList['plants']): string => {
  if (length === 0) return 'No plants';
  return length === 1 ? 'This plant' : `These ${length.toLocaleString()} plants`;
};

/** Name and tag as the event says them that set the plant last. */
export const textsOf = ({
  event: { data },
}: ListedPlant): { readonly name: string; readonly tag: string } => {
  const { name, tag } = isObject(data) ? data : {};
  return { name: typeof name === 'string' ? name : '', tag: typeof tag === 'string' ? tag : '' };
};

/** Plants that are shown; the file has all. */
const SHOWN = 100;

export const PlantsProven = ({ list: { plants } }: { readonly list: ProvenList }) => {
  if (plants.length === 0) return null;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Proven plants">
      <table>
        <thead>
          <tr>
            <th scope="col">Id</th>
            <th scope="col">Name</th>
            <th scope="col">Tag</th>
          </tr>
        </thead>
        <tbody>
          {plants.slice(0, SHOWN).map((plant) => (
            <tr key={plant.id}>
              <td class="mono">{plant.id}</td>
              <td>
                <Name text={textsOf(plant).name} />
              </td>
              <td>
                <Name text={textsOf(plant).tag} of="none" />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {plants.length > SHOWN && <p class="hint">And {plants.length - SHOWN} more.</p>}
    </div>
  );
};
