# frozen_string_literal: true

require "spec_helper"
require_relative "rails_context"

RSpec.describe "Code of an application of Rails" do
  include_context "with an application of Rails"

  it "runs in its executor where plock calls it on a thread of its own" do
    app.configure("config.plock.url = 'memory:'")
    expect(told(<<~RUBY)).to eq("true\ntrue\n")
      ended = Queue.new
      Rails.application.executor.to_complete { ended << Thread.current.name }
      on_lost = ->(_) { puts Rails.application.executor.active? }
      Plock.acquire("k", on_lost: on_lost) { Plock.store.break("k") }
      Plock::Dispatcher.flush
      puts ended.size.times.map { ended.pop }.include?("plock notices")
    RUBY
  end

  context "that is reloaded" do
    let(:server) { redis_server }

    before do
      app.configure("config.plock.url = #{server.unix_url.inspect}")
      app.write("app/models/import.rb", <<~RUBY)
        class Import
          LOCKS = Plock::Store.open(#{server.unix_url.inspect})
          LEASE = LOCKS.acquire("import", ttl: 20, wait: 10, renew: true)

          def self.generation = LOCKS.object_id

          def self.release = LEASE.release
        end
      RUBY
    end

    # The class Import acquires a lease when it is loaded. After a reload, the new class would wait
    # for that lease. So the example releases the old class's lease before it uses the new class.
    it "finds the default store as it was, and what was held by the old code still held" do
      expect(told(<<~RUBY, environment: "development")).to eq("true\nfalse\ntrue\n[1, true]\nnil\n")
        default, old = Plock.store, Import
        lease = old::LEASE
        Rails.application.reloader.reload!
        puts Plock.store.equal?(default), lease.lost?, Plock.try_acquire("import").nil?
        lease.release
        p [Import.generation == old.generation ? 0 : 1, Import::LEASE.valid?]
        Import.release
        p Plock.status("import").host
      RUBY
    end

    it "leaves no connections behind" do
      skip "no /proc" unless Support::Inventory.available?

      app.write("sockets.rb", <<~RUBY)
        SOCKETS = lambda do
          Dir.children("/proc/self/fd").count do |fd|
            File.readlink("/proc/self/fd/\#{fd}").start_with?("socket:")
          rescue Errno::ENOENT
            false # the descriptor that lists the others
          end
        end
      RUBY
      counts = told(<<~RUBY, environment: "development").split.map { |count| Integer(count) }
        require "./sockets"
        20.times do
          Import.release
          Rails.application.reloader.reload!
          GC.start
          Import.generation
          puts SOCKETS.call
        end
      RUBY
      # compares with the tenth reload, because objects may stay on the stack for a while
      expect(counts.last - counts[9]).to be < 5
    end
  end
end
