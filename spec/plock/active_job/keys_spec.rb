# frozen_string_literal: true

require "spec_helper"
require "support/active_jobs"

RSpec.describe "The key of a guarded ActiveJob" do
  include_context "with ActiveJob"

  it "is stable for the same arguments: global ids, names in any order, times" do
    run_jobs(:async, <<~'RUBY')
      require "global_id"
      GlobalID.app = "spec"
      class Account
        include GlobalID::Identification
        attr_reader :id
        def self.find(id) = new(id)
        def initialize(id) = @id = id
      end
      class Import < Guarded
        guard_with on_conflict: :retry
        def perform(...)
          DONE << [true]
          (REST << true) && GO.pop
        end
      end
      Import.perform_later(Account.new(7), since: Time.at(1.5), deep: { b: [1.5, nil], a: :x })
      REST.pop
      again = -> {
        Import.perform_now(Account.new(7), deep: { a: :x, b: [1.5, nil] }, since: Time.at(1.5))
      }
      see "the same", raised(&again), Plock::Guard::Conflict
      GO << true
      eventually { held.empty? }
      2.times { GO << true }
      Plock.acquire("x") {
        Import.perform_now(Account.new(8), since: Time.at(1.5), deep: { b: [1.5, nil], a: :x })
      }
      Import.perform_now(Account.new(7))
      see "others", done.size, 3
    RUBY
  end

  it "is what the key: answers, for the arguments of perform" do
    run_jobs(:inline, <<~'RUBY')
      class Import < Guarded
        guard_with key: ->(account, since:, **) { "import:#{account}:#{since}" },
                   during: :queued_and_running
        def perform(*, **) = DONE << Plock.status("import:7:now").held?
      end
      Import.perform_later(7, since: "now", more: 1)
      Import.perform_now(7, since: "now")
      see "held", done, [true, true]
      see "held", held, []
      class Broken < Guarded
        guard_with key: ->(*) {}, during: :queued
        discard_on(Plock::Guard::InvalidKey) { |job, error| DONE << error.message }
      end
      see "nil", raised { Broken.perform_later(1) }, Plock::Guard::InvalidKey
      class BrokenLater < Broken
        guard_with key: ->(*) { raise "no such account" }
      end
      BrokenLater.perform_later(1)
      see "told", done, ["the key: of BrokenLater raised RuntimeError: no such account"]
    RUBY
  end

  it "is refused to what cannot be serialized, before it is taken" do
    run_jobs(:async, <<~'RUBY')
      class Import < Guarded
        guard_with key: "k", during: :queued_and_running
      end
      see "error", raised { Import.perform_later(Object.new) }, ActiveJob::SerializationError
      see "held", held, []
    RUBY
  end

  it "is given back where its arguments cannot be read any more" do
    run_jobs(:async, <<~'RUBY')
      require "global_id"
      GlobalID.app = "spec"
      class Account
        include GlobalID::Identification
        def self.find(_id) = raise("gone")
        def id = 7
      end
      class Import < Guarded
        guard_with during: :queued_and_running
        discard_on(ActiveJob::DeserializationError) { DONE << held.size }
      end
      Import.perform_later(Account.new)
      eventually { DONE.size == 1 }
      see "held in the handler", done, [1]
      eventually { held.empty? }
    RUBY
  end
end
