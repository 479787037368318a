# frozen_string_literal: true

require "spec_helper"
require "plock/jobs/guard"

RSpec.describe Plock::Guard::Options do
  it "guards a job while it runs, reschedules, and requires the store, by default" do
    expect(described_class.new).to have_attributes(
      key: nil, runs?: true, queued?: false, ttl: 15.0, wait: 0.0, on_conflict: :reschedule,
      max_conflicts: nil, at_least: 0.0, limit: 1, on_lost: :log, proceed?: false,
      queued_ttl: 86_400.0
    )
  end

  it "shows no password of its store" do
    expect(described_class.new(key: "k", store: "redis://:geheim@localhost").inspect)
      .not_to include("geheim")
  end

  it "takes everything that it names" do
    callable = -> {}
    options =
      described_class.new(
        key: callable, during: :queued_and_running, ttl: 1, wait: 2, on_conflict: callable,
        max_conflicts: 3, at_least: 4, limit: 5, on_lost: callable, on_unavailable: :proceed,
        queued_ttl: 6
      )
    expect(options).to have_attributes(
      key: callable, runs?: true, queued?: true, ttl: 1.0, wait: 2.0, on_conflict: callable,
      max_conflicts: 3, at_least: 4.0, limit: 5, on_lost: callable, proceed?: true, queued_ttl: 6.0
    )
  end

  {
    "an option of another name" =>
      [{ untill: :done }, /no option :untill: write one of key:, during:, ttl:/],
    "a key that cannot be called" =>
      [{ key: :id }, /key: must be a callable or a String \(got :id\): write key: ->\(id\)/],
    "an empty key" => [{ key: "" }, /key must be a String or Symbol that is not empty/],
    "another time" => [
      { during: :always },
      /during: must be one of :running, :queued, :queued_and_running \(got :always\): write/
    ],
    "another way out" => [
      { on_conflict: :replace },
      /on_conflict: must be one of :reschedule, :retry, :discard, a callable/
    ],
    "another way to tell" =>
      [{ on_lost: :warn }, /on_lost: must be one of :log, :raise, a callable \(got :warn\)/],
    "another way without a store" => [
      { on_unavailable: :ignore },
      /on_unavailable: must be one of :raise, :proceed \(got :ignore\)/
    ],
    "a ttl that is none" => [{ ttl: 0 }, /ttl: must be from 0.005 to 31622400 seconds \(got 0\)/],
    "a wait of no number" => [{ wait: "1" }, /wait: must be from 0.0/],
    "a negative at_least" => [{ at_least: -1 }, /at_least: must be from 0.0/],
    "a queue of no time" =>
      [{ during: :queued, queued_ttl: 0.5 }, /queued_ttl: must be 1.0 seconds or more: write/],
    "a limit of none" =>
      [{ limit: 0 }, /limit: must be an Integer from 1 to 65535 \(got 0\): leave it out/],
    "a limit in parts" => [{ limit: 1.5 }, /limit: must be an Integer/],
    "no conflicts at all" =>
      [{ max_conflicts: 0 }, /max_conflicts: must be an Integer.*write on_conflict: :retry/],
    "an option that only a running job has" => [
      { during: :queued, ttl: 5 },
      /ttl: is of no use with during: :queued.*queued_and_running/
    ],
    "an option that only a queued job has" =>
      [{ queued_ttl: 5 }, /queued_ttl: is of no use with during: :running/],
    "a bound to conflicts that never happen" => [
      { on_conflict: :discard, max_conflicts: 5 },
      /max_conflicts: is of no use with on_conflict: :discard/
    ]
  }.each do |what, (options, message)|
    it "refuses #{what}" do
      expect { described_class.new(**options) }.to raise_error(
        ArgumentError, /\Aguard_with: (?!guard_with).*#{message.source}/m
      )
    end
  end
end

RSpec.describe Plock::Guard do
  it "refuses a class that is not one of jobs, and says what to write" do
    expect { Class.new { include Plock::Guard }.guard_with }.to raise_error(
      ArgumentError, %r{include Sidekiq::Job and require "plock/sidekiq"}
    )
  end
end
