# frozen_string_literal: true

require "spec_helper"
require "support/web_pages"

RSpec.describe "Plock::Web with 10,000 locks, of which 1,000 are waited for",
               needs: "redis-server" do
  include Support::WebPages

  let(:server) { redis_server }
  let(:store) { open_store(server.unix_url) }
  let(:pages) { Plock::Web.new(store) }

  before do
    server.client.pipelined do |pipeline|
      locks = Support::WrittenLocks.new(pipeline, store)
      10_000.times { |number| locks.hold("k#{number}", pid: number + 1, label: "lock #{number}") }
      1_000.times { |number| locks.wait("k#{number}", host: "web-2", pid: number + 1, since: 9) }
    end
  end

  # Runs in another process, so that objects of other examples do not count. For each request, it
  # prints the elapsed time and the processor time, because other programs add only to the elapsed
  # time. The last line tells which part of the list the last page shows.
  let(:viewer) { <<~'RUBY' }
    require "plock/web"
    require "rack/mock"

    pages = Rack::MockRequest.new(Plock::Web.new(Plock::Store.open(*ARGV)))
    clocks = [Process::CLOCK_MONOTONIC, Process::CLOCK_PROCESS_CPUTIME_ID]
    last = nil
    40.times do |number|
      before = clocks.map { |clock| Process.clock_gettime(clock) }
      last = pages.get(number.even? ? "/locks?page=1" : "/locks?page=100&sort=label")
      puts clocks.zip(before).map { |clock, start| Process.clock_gettime(clock) - start }.join(" ")
    end
    puts last.body[/[\d,]+ to [\d,]+ of\s+[\d,]+/].split.join(" ")
  RUBY

  # The limit applies to the first requests, during which the page still counts the locks, and to
  # the later ones, which show the whole list.
  it "takes less than 300 ms, from the first request on", :timing, :slow do
    output, = ruby(viewer, server.unix_url)
    lines = output.lines
    expect(lines.pop.to_s.chomp).to eq "4,951 to 5,000 of 10,000"
    times = lines.map { |line| line.split.map { |text| Float(text) } }
    on_clock, on_processor = times.transpose.map(&:sort)
    expect(on_clock[times.size / 2]).to be < 0.3
    expect(on_processor.last).to be < 0.3
  end

  it "lists in small steps, and never by KEYS" do
    server.call("CONFIG", "RESETSTAT")
    60.times { get "/locks" unless last_request_complete? }
    expect(page).to include "of 10,000"
    calls = server.call("INFO", "commandstats").scan(/^cmdstat_(\w+):calls=(\d+)/).to_h
    expect(calls).not_to include "keys"
    expect(Integer(calls.fetch("scan"))).to be >= 100
  end

  it "asks for all kinds of a name at once" do
    survey = pages.sources.first.survey
    asked = Queue.new
    allow(survey).to receive(:examine).and_wrap_original do |original, *arguments|
      asked << true
      eventually { asked.size >= Plock::Locking::Kind::ALL.size }
      original.call(*arguments)
    end
    expect(survey.named("k1").map(&:key)).to eq ["k1"]
  end

  def last_request_complete? = @complete ||= pages.sources.first.history.samples.any?
end
