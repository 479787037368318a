# frozen_string_literal: true

RSpec.shared_examples "a store of what is done once" do

  describe "#once" do
    after { windows.each { |status| store.break(status) } }

    def windows =
      store.each_lock.select do |status|
        status.kind == :once && status.store_key.start_with?(store.status(key).store_key)
      end

    def once(within: Support::StoreContract::LONG, **options, &block) =
      store.once(key, within: within, **options, &block)

    it "runs the block, and tells its value" do
      result = once { |lease| [lease.key, lease.valid?] }
      expect(result).to be_a(Plock::Once).and have_attributes(
        ran?: true,
        value: [key, true],
        frozen?: true
      )
    end

    it "does not run it again, nor meanwhile, and does not wait" do
      expect(once { once { raise "entered" } }.value).to have_attributes(
        ran?: false, value: nil, frozen?: true
      )
      expect(once { raise "entered" }).to have_attributes(ran?: false, value: nil)
    end

    it "does not run it again if the block has released its lease, or handed it over" do
      expect(once(&:release)).to be_ran
      expect(once { raise "entered" }).not_to be_ran
      windows.each { |status| store.break(status) }
      dump = once(&:dump).value
      store.adopt(dump) { expect(once { raise "entered" }).not_to be_ran }
      expect(once { raise "entered" }).not_to be_ran
    end

    it "runs it again when the time is over" do
      started = Plock::Clock.now
      once(within: short) { nil }
      eventually { once(within: short) { nil }.ran? }
      expect(Plock::Clock.now - started).to be >= short * 0.97
    end

    it "counts from the beginning of the block" do
      once(within: 20) { nil }
      expect(windows.map(&:remaining)).to match([be_between(15, 20.1)])
    end

    it "runs it in one of many threads" do
      results = Array.new(8) { |number| background { once { number } } }.map(&:value)
      expect(results.map(&:ran?).tally).to eq({ true => 1, false => 7 })
      expect(results.filter_map(&:value).size).to be(1)
    end

    it "keeps others out as long as the block takes, even if that is longer, and no longer" do
      once(within: renewed) do
        outlive(Plock::Clock.now + windows.first.remaining)
        expect(once(within: renewed) { raise "entered" }).not_to be_ran
      end
      expect(windows).to be_empty
    end

    describe "when the block raises" do
      it "lets the next one run at once, and the exception go on" do
        expect { once { raise IOError, "the block's own" } }.to raise_error(
          IOError, "the block's own"
        )
        expect(once { :again }.value).to be(:again)
      end

      it "keeps others out with on_error: :keep, and lets the exception go on" do
        expect { once(on_error: :keep) { raise IOError, "the block's own" } }.to raise_error(
          IOError, "the block's own"
        )
        expect(once { raise "entered" }).not_to be_ran
      end
    end

    # Interrupts the block with a timeout. Tries again if the timeout came before the block began.
    time_out = ->(&once) do
      inside = false
      Timeout.timeout(0.02) { once.call { (inside = true) && sleep } }
    rescue Timeout::Error
      inside ? raise : retry
    end

    {
      "by exit" => ->(&once) { once.call { exit } }, "by Timeout" => time_out,
      "by Thread#kill" => ->(&once) { Thread.new { once.call { Thread.current.kill } }.join },
      "by break" => ->(&once) { once.call { break } },
      "by throw" => ->(&once) { catch(:out) { once.call { throw :out } } }
    }.each do |name, way|
      it "does not count a block that is left #{name} as run, unless on_error: is :keep" do
        %i[release keep].each do |on_error|
          way.call { |&block| once(on_error: on_error, &block) }
        rescue SystemExit, Timeout::Error
          nil
        ensure
          expect(once { :again }.ran?).to be(on_error == :release)
          windows.each { |status| store.break(status) }
        end
      end
    end

    it "counts a block that is left by next as run" do
      expect(once { next :value }.value).to be(:value)
      expect(once { raise "entered" }).not_to be_ran
    end

    it "is found by each_lock, with its label, and can be allowed again by breaking that" do
      once(label: "digest") { nil }
      found = store.each_lock.find { |status| status.label == "digest" }
      expect(found).to have_attributes(kind: :once, held?: true, pid: Process.pid)
      expect(store.break(found)).to be(true)
      expect(once { :again }.value).to be(:again)
    end

    it "warns where its window was broken while the block ran" do
      heard =
        warnings do
          expect(once { windows.each { |status| store.break(status) } && :value }.value).to be(
            :value
          )
        end
      expect(heard).to match([/"#{key}" .* is lost before its block ended/])
    end

    it "tells of events" do
      expect(events_of(/acq|cont|time|rel/) { once { once { nil } } }.map(&:name)).to eq(
        %i[acquire contended timeout release]
      )
    end

    it "leaves the way free where it is interrupted before the block runs, at whatever step" do
      ran = nil
      block = -> do
        ran = false
        once { ran = true }
      end
      interrupted_everywhere(block) do
        ran || eventually(Support::StoreContract::LATE_NEWS) { windows.empty? }
        windows.each { |status| store.break(status) }
      end
    end

    it "raises an ArgumentError for what cannot be right" do
      [0, nil, -1, "60", 31_622_401].each do |within|
        expect { once(within: within) { nil } }.to raise_error(ArgumentError, /within:/)
      end
      [nil, :raise, "keep"].each do |way|
        expect { once(on_error: way) { nil } }.to raise_error(ArgumentError, /on_error:/)
      end
      expect { once(label: "") { nil } }.to raise_error(ArgumentError, /label:/)
      expect { once(ttl: 5) { nil } }.to raise_error(ArgumentError, /ttl/)
      expect { once }.to raise_error(ArgumentError, /block/)
      expect { store.once(key) { nil } }.to raise_error(ArgumentError, /within/)
    end
  end
end
