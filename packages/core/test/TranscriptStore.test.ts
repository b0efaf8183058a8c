import * as TranscriptStore from "@switchyard/core/TranscriptStore"
import { suite } from "@switchyard/testkit/TranscriptStoreSuite"

suite("TranscriptStore in memory", TranscriptStore.layerMemory)
